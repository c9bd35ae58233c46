"""The servers under the suite. Each is a program with `--era legacy|modern|both` and either `--stdio` or `--http HOST:PORT`, which
prints `listening URL`. All offer the same names."""

import contextlib
import re
import select
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .install import HERE, Cache
from .processes import START_SECONDS, fixture_binary, running


@dataclass(frozen=True)
class Fixture:
    name: str
    program: Callable[[Cache], list[str]]
    # Every tool of a single-era server asks in the way of that era; otherwise it is no reference for a bridge.
    asks_both_ways: bool = True

    def over_stdio(self, cache: Cache, era: str) -> dict:
        """Returns its entry in a gateway's configuration. The suite leaves questions unanswered, each of which keeps its process until
        a timeout, so the connection limit covers those of all legs."""
        command, *arguments = [*self.program(cache), "--stdio", "--era", era]
        return {"command": command, "args": arguments, "client_connections": 64}

    @contextlib.contextmanager
    def over_http(self, cache: Cache, era: str, folder: Path):
        """Runs the fixture; yields its URL."""
        command = [*self.program(cache), "--era", era, "--http", "127.0.0.1:0"]
        with running(command, folder / "fixture.log", subprocess.PIPE) as child:
            if not select.select([child.stdout], [], [], START_SECONDS)[0]:
                raise RuntimeError(f"the fixture {self.name} does not start")
            line = child.stdout.readline().decode()
            found = re.fullmatch(r"listening (http://\S+)\n", line)
            if not found:
                raise RuntimeError(f"the fixture {self.name} printed {line!r}")
            yield found.group(1)


def own(_: Cache) -> list[str]:
    return [str(fixture_binary()), "--skills"]


def rmcp(_: Cache) -> list[str]:
    return [str(fixture_binary()), "--like-examples"]


def python(cache: Cache) -> list[str]:
    return [str(cache.python), str(HERE / "fixtures" / "python_server.py")]


def python_sdk(cache: Cache) -> list[str]:
    return [str(cache.python), str(HERE / "fixtures" / "python_sdk.py")]


def typescript(cache: Cache) -> list[str]:
    return [str(cache.node), str(HERE / "fixtures" / "typescript_server.mjs"), str(cache.folder)]


# Every tool of `own` asks in the way of its client's era. `python-sdk` is the SDK's own server. The others are modelled on the
# examples of their SDK.
FIXTURES = {
    fixture.name: fixture
    for fixture in (
        Fixture("own", own),
        Fixture("rmcp", rmcp),
        Fixture("python", python),
        Fixture("python-sdk", python_sdk, asks_both_ways=False),
        Fixture("typescript", typescript),
    )
}
