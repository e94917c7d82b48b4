"""Has schemathesis make up requests from the server's own OpenAPI document, and reports what it finds.

The server is at SERVER, its token in TOKEN. Streams never end, so they are asked for apart, through a relay that ends them
after a moment. Wrong tokens are tried by our own tests, for every route: after ten of them the server answers 429, which
schemathesis takes for a mistake.
"""

import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

# What a schema cannot say, such as that a message is not empty or that a cursor is one of ours, is answered with 422.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "413", "422", "429"]
"""


def say(**fields):
    print(json.dumps(fields), flush=True)


# How long a stream is read, in seconds. What it has to say comes at once.
MOMENT = 0.3


class Relay(http.server.BaseHTTPRequestHandler):
    """Passes requests on, and what is answered back; of a stream, what comes in a moment."""

    protocol_version = "HTTP/1.1"
    server_there = ""

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        there = http.client.HTTPConnection(self.server_there, timeout=30)
        there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        there.putheader("host", self.server_there)
        for name, value in self.headers.items():
            if name.lower() not in ("host", "connection", "transfer-encoding"):
                there.putheader(name, value)
        there.endheaders(body or None)
        answer = there.getresponse()
        is_stream = answer.getheader("content-type") == "text/event-stream"
        said = self.moment(there, answer) if is_stream else answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
        there.close()

    @staticmethod
    def moment(there, answer):
        said, until = b"", time.monotonic() + MOMENT
        there.sock.settimeout(MOMENT)
        while time.monotonic() < until:
            try:
                said += answer.read1(65536)
            except TimeoutError:
                break
        return said

    def __getattr__(self, name):
        # Methods that nobody knows are passed on too.
        if name.startswith("do_"):
            return self.pass_on
        raise AttributeError(name)

    def log_message(self, *_):
        pass


def relay(server):
    Relay.server_there = urllib.parse.urlsplit(server).netloc
    house = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    threading.Thread(target=house.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{house.server_port}"


def ask(server, token, *arguments):
    with tempfile.TemporaryDirectory() as place:
        report = pathlib.Path(place) / "report.json"
        (pathlib.Path(place) / "schemathesis.toml").write_text(CONFIG)
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server}/openapi.json"]
        command += ["--header", f"Authorization: Bearer {token}", *arguments]
        command += ["--exclude-checks", "ignored_auth", "--continue-on-failure"]
        command += ["--report-json-path", str(report), "--no-color", "--suppress-health-check", "all"]
        with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
            for line in running.stdout:
                print(line, end="", flush=True)
        if not report.exists():
            sys.exit("schemathesis made no report, see above")
        return json.loads(report.read_text())


def tell(found, operations_min):
    operations, cases = found["operations"], found["test_cases"]
    is_whole = found["complete"] and operations["tested"] == operations["selected"] >= operations_min
    say(check=f"{cases['generated']} requests to {operations['tested']} operations", ok=is_whole, why=str(operations))
    for failure in found["failures"]:
        say(check=failure["title"], ok=False, why=f"{failure['count']} times, at {failure['operations']}")
    for error in found["errors"]:
        say(check="an error", ok=False, why=str(error))


def is_good(server, token):
    there = http.client.HTTPConnection(urllib.parse.urlsplit(server).netloc, timeout=30)
    there.request("GET", "/v1/models", headers={"authorization": f"Bearer {token}"})
    return there.getresponse().status == 200


def main():
    server, token = os.environ["SERVER"], os.environ["TOKEN"]
    # Whoever lists tokens and takes one back takes back the one they came with, and is refused from then on.
    whole = ask(server, token, "--exclude-path-regex", "stream$|tokens/", "--max-examples", "30")
    streams = ask(relay(server), token, "--include-path-regex", "stream$|chats$", "--max-examples", "10")
    revoke = ask(server, token, "--include-path-regex", "tokens/", "--max-examples", "10")
    say(peer="schemathesis", version=whole["schemathesis_version"])
    say(check="the token was good to the end", ok=is_good(server, token), why="the server refuses it")
    for found, operations_min in ((whole, 21), (streams, 4), (revoke, 1)):
        tell(found, operations_min)


main()
