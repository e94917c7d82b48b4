"""Has openapi-python-client make a client of the server's document, and imports every model and operation of it.

The server is at SERVER, its token in TOKEN. A schema that the generator leaves out is a warning of its, and fails the check.
"""

import importlib
import importlib.metadata
import json
import os
import pathlib
import pkgutil
import subprocess
import sys
import tempfile
import urllib.request


def say(**fields):
    print(json.dumps(fields), flush=True)


def check(name, run):
    try:
        run()
        say(check=name, ok=True)
    except Exception as error:  # Whatever is wrong is what the check found.
        say(check=name, ok=False, why=f"{type(error).__name__}: {error}"[:2000])


PEER = "openapi-python-client"
say(peer=PEER, version=importlib.metadata.version(PEER))
server = os.environ["SERVER"]
server = server if server.startswith("http") else f"http://{server}"
headers = {"authorization": "Bearer " + os.environ["TOKEN"]}
document = json.load(urllib.request.urlopen(urllib.request.Request(server + "/openapi.json", headers=headers)))

with tempfile.TemporaryDirectory() as directory:
    place = pathlib.Path(directory)
    (place / "openapi.json").write_text(json.dumps(document))
    # The generator knows no OpenMetrics; it is text.
    config = {"package_name_override": "everturn_client", "post_hooks": []}
    config["content_type_overrides"] = {"application/openmetrics-text": "text/plain"}
    (place / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"]
    command += ["--path", "openapi.json", "--config", "config.json", "--output-path", "everturn_client"]

    def generated():
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def imported():
        sys.path.insert(0, directory)
        package = importlib.import_module("everturn_client")
        names = [found.name for found in pkgutil.walk_packages(package.__path__, "everturn_client.")]
        modules = [importlib.import_module(name) for name in names]
        wanted = {operation["operationId"] for path in document["paths"].values() for operation in path.values()}
        made = {module.__name__.rsplit(".", 1)[1].replace("_", "") for module in modules}
        missing = sorted(name for name in wanted if name.lower() not in made)
        assert not missing, f"there is no method for {missing}"

    def read():
        from everturn_client.models import UserMessage

        message = UserMessage.from_dict({"id": 1, "at": 2, "kind": "user", "parts": [], "receipt": 7, "key": "mine"})
        assert (message.receipt, message.key) == (7, "mine"), message

    check("a client is generated without a warning", generated)
    check("every module of it is imported", imported)
    check("a message is read with its receipt", read)
