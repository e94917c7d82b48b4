"""Has schemathesis make up requests from the server's own OpenAPI document, and reports what it finds.

The server is at SERVER, its token in TOKEN. Streams never end, so they are left out. Wrong tokens are tried by our own
tests, for every route: after ten of them the server answers 429, which schemathesis takes for a mistake.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

# What a schema cannot say, such as that a message is not empty or that a cursor is one of ours, is answered with 422.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "413", "422", "429"]
"""


def say(**fields):
    print(json.dumps(fields), flush=True)


def main():
    server, token = os.environ["SERVER"], os.environ["TOKEN"]
    with tempfile.TemporaryDirectory() as place:
        report = pathlib.Path(place) / "report.json"
        (pathlib.Path(place) / "schemathesis.toml").write_text(CONFIG)
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server}/openapi.json"]
        command += ["--header", f"Authorization: Bearer {token}", "--exclude-path-regex", "stream$"]
        command += ["--exclude-checks", "ignored_auth", "--max-examples", "30", "--continue-on-failure"]
        command += ["--report-json-path", str(report), "--no-color", "--suppress-health-check", "all"]
        with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
            for line in running.stdout:
                print(line, end="", flush=True)
        if not report.exists():
            sys.exit("schemathesis made no report, see above")
        found = json.loads(report.read_text())
    say(peer="schemathesis", version=found["schemathesis_version"])
    operations, cases = found["operations"], found["test_cases"]
    is_whole = found["complete"] and operations["tested"] == operations["selected"] > 20
    say(check=f"{cases['generated']} requests to {operations['tested']} operations", ok=is_whole, why=str(operations))
    for failure in found["failures"]:
        say(check=failure["title"], ok=False, why=f"{failure['count']} times, at {failure['operations']}")
    for error in found["errors"]:
        say(check="an error", ok=False, why=str(error))


main()
