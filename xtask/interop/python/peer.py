"""What the checks share: the stage, the scenes, and a line of JSON a check."""

import contextlib
import importlib.metadata
import json
import os
import traceback

STAGE = json.loads(os.environ["STAGE"])
URL, KEY, SCENES = STAGE["url"], STAGE["key"], STAGE["scenes"]

TOOLS = {
    "weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
    "now": {"type": "object", "properties": {}},
}
RESULTS = {"weather": "cold", "now": "noon"}


def peer(package):
    print(json.dumps({"peer": f"{package} (Python)", "version": importlib.metadata.version(package)}), flush=True)


@contextlib.contextmanager
def check(name):
    """One check: what goes wrong inside is told, and the next one goes on."""
    try:
        yield
        print(json.dumps({"check": name, "ok": True}), flush=True)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"
        print(json.dumps({"check": name, "ok": False, "why": why}), flush=True)


def same(seen, expected):
    """What was seen is what the script says, whole."""
    assert seen == expected, f"saw {seen!r}, expected {expected!r}"


@contextlib.contextmanager
def raises(kind, status):
    """The SDK raises its own typed error, with the status it got."""
    try:
        yield
    except kind as error:
        same(getattr(error, "status_code", None) or getattr(error, "code", None), status)
        return
    raise AssertionError(f"no {kind.__name__}")
