"""Has promtool check the metrics of a server before and after a turn.

The server is at SERVER, its token in TOKEN, promtool in PROMTOOL. A lint of promtool's fails the check.
"""

import json
import os
import subprocess
import time
import urllib.request


def say(**fields):
    print(json.dumps(fields), flush=True)


PROMTOOL = os.environ["PROMTOOL"]
server = os.environ["SERVER"]
server = server if server.startswith("http") else f"http://{server}"
headers = {"authorization": "Bearer " + os.environ["TOKEN"], "content-type": "application/json"}


def ask(path, body=None, **more):
    data = None if body is None else json.dumps(body).encode()
    return urllib.request.urlopen(urllib.request.Request(server + path, data, {**headers, **more})).read()


def turn():
    chat = json.loads(ask("/v1/chats", {}))["id"]
    ask(f"/v1/chats/{chat}/messages", {"text": "What can you do?"})
    while json.loads(ask(f"/v1/chats/{chat}"))["unanswered"]:
        time.sleep(0.05)


def check(name):
    metrics = ask("/metrics", accept="text/plain")
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=metrics, capture_output=True)
    said = (done.stdout + done.stderr).decode().strip()
    families = metrics.count(b"# TYPE everturn_")
    why = said or f"promtool ended with {done.returncode}, {families} families"
    say(check=name, ok=done.returncode == 0 and not said and families > 10, why=why)


told = subprocess.run([PROMTOOL, "--version"], capture_output=True, text=True)
say(peer="promtool", version=(told.stdout + told.stderr).split()[2])
check("metrics of a new server")
turn()
check("metrics after a turn")
