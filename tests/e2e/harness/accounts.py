"""Accounts at a server with the authorization server of the Python SDK, which requires a token for all requests. Every client
library, in both eras, follows the link of its first call, and then calls as the account that was connected. One library of each era
also sees private lists.
"""

import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from .clients import CLIENTS, HERE, Place, play
from .gateway import Gateway
from .identity import CLIENT_NAMES, Knowing
from .judge import Verdict


class Accounts(Knowing):
    """A gateway with a key for each client library."""

    def __init__(self, binary: Path, scratch: Path, yard):
        self.binary, self.yard, self.children = binary, yard, []
        self.scratch = scratch / "accounts"
        self.scratch.mkdir()
        self.gateway = Gateway(binary, self.scratch, {})
        self.public = f"http://{self.gateway.listen}"
        self.url = self.launch("account_server.py")
        self.keys = {name: self.create_key(name) for name in CLIENT_NAMES}
        self.write({name: {"url": self.url, "auth": {"type": "user", "discovery": discovery}}
                    for name, discovery in {"tickets": "first_user", "private": "per_user"}.items()})


def do(accounts: Accounts, cache: Path, name: str, step: dict) -> dict | str:
    """Returns the result of a step, or the library's error."""
    place = Place(url=f"{accounts.public}/mcp", token=accounts.keys[name])
    reports, err = play(CLIENTS[name], cache, place, {"steps": [step]})
    if len(reports) < 2:
        return f"{len(reports)} reports: {err[-400:]}"
    return reports[1]["result"] if reports[1]["ok"] else str(reports[1]["error"])


def ask(accounts: Accounts, cache: Path, name: str, tool: str) -> str:
    """Returns the text of a call's result, with the library's error if there is none."""
    result = do(accounts, cache, name, {"do": "call_tool", "name": tool, "arguments": {}})
    return result if isinstance(result, str) else result["content"][0].get("text")


def wait_for(wanted, read):
    """Reads until the wanted value is there, at most ten seconds. Returns the last other value as the reason of a failure."""
    end = time.monotonic() + 10
    while (found := read()) != wanted and time.monotonic() < end:
        pass
    return [] if found == wanted else [f"want {wanted}, got {found}"]


def connect(accounts: Accounts, cache: Path, name: str, tool: str) -> list[str]:
    """Connects an account by the link in the result of a call. Returns the reasons of a failure."""
    said = ask(accounts, cache, name, tool)
    link = re.search(r"http://\S+/connect/\w+\?link=\S+", said)
    if not link:
        return [f"no link: {said}"]
    page = Browser(accounts.public, accounts.keys[name]).connect(link.group())
    return [] if "Your account is connected" in page else [f"not connected: {page[-400:]}"]


def private_lists(accounts: Accounts, cache: Path):
    """Each caller sees the lists of its own account, and before that a tool that connects one."""
    def listed(name):
        result = do(accounts, cache, name, {"do": "list_tools"})
        names = [] if isinstance(result, str) else [tool["name"] for tool in result["tools"]]
        return [name for name in names if name.startswith("private__")] or result

    for name, other in (("py-legacy", "ts-modern"), ("ts-modern", "ts-legacy")):
        reasons = wait_for(["private__connect"], lambda: listed(name))
        reasons += connect(accounts, cache, name, "private__connect")
        reasons += wait_for(["private__whoami"], lambda: listed(name))
        reasons += wait_for(["private__connect"], lambda: listed(other))
        yield Verdict(f"accounts {name}: its lists are private", reasons)


class Browser:
    """The browser of a caller with a key. Cookies of the page and of its callback are for the same host."""

    def __init__(self, public: str, key: str):
        self.key, self.public = key, public
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())

    def open(self, url: str, form: dict[str, str] | None = None) -> str:
        headers = {"Origin": self.public, "Sec-Fetch-Site": "same-origin"}
        body = urllib.parse.urlencode(form).encode() if form else None
        try:
            with self.opener.open(urllib.request.Request(url, body, headers), timeout=20) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return f"{error.url}: {error.code} {error.read().decode()}"

    def connect(self, link: str) -> str:
        """Follows a link through sign-in, consent and the authorization server; returns the last page."""
        page, query = link.split("?")
        text = self.open(f"{page}/sign-in?{query}", {"key": self.key})
        token = re.search(r'name="token" value="([^"]+)"', text)
        return self.open(link, {"token": token.group(1)}) if token else text


def run(binary: Path, cache: Path, scratch: Path, yard):
    accounts = Accounts(binary, scratch, yard)
    try:
        accounts.gateway.start()
        for number, name in enumerate(CLIENT_NAMES, 1):
            # Before the first user, a tool stands for the server.
            reasons = connect(accounts, cache, name, "tickets__connect" if number == 1 else "tickets__whoami")
            yield Verdict(f"accounts {name}: the link connects an account", reasons)
            reasons = wait_for(f"user-{number}", lambda: ask(accounts, cache, name, "tickets__whoami"))
            yield Verdict(f"accounts {name}: calls are of its account", reasons)
        # The tokens of the first have expired, and are renewed.
        for number, name in enumerate(CLIENT_NAMES, 1):
            said = ask(accounts, cache, name, "tickets__whoami")
            yield Verdict(f"accounts {name}: its token is renewed", [] if said == f"user-{number}" else [said])
        yield from private_lists(accounts, cache)
    finally:
        complaint = accounts.stop()
    yield Verdict("accounts: the gateway stops on SIGTERM", [complaint] if complaint else [])
