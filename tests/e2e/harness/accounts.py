"""Accounts at a server with the authorization server of the Python SDK, which requires a token for all requests. Every client
library, in both eras, follows the link of its first call, and then calls as the account that was connected.
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
        self.write({"tickets": {"url": self.url, "auth": {"type": "user", "discovery": "first_user"}}})


def ask(accounts: Accounts, cache: Path, name: str, tool: str) -> str:
    """Returns the text of a call's result, with the library's error if there is none."""
    place = Place(url=f"{accounts.public}/mcp", token=accounts.keys[name])
    script = {"steps": [{"do": "call_tool", "name": f"tickets__{tool}", "arguments": {}}]}
    reports, err = play(CLIENTS[name], cache, place, script)
    if len(reports) < 2:
        return f"{len(reports)} reports: {err[-400:]}"
    return reports[1]["result"]["content"][0].get("text") if reports[1]["ok"] else str(reports[1]["error"])


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
            said = ask(accounts, cache, name, "connect" if number == 1 else "whoami")
            link = re.search(r"http://\S+/connect/tickets\?link=\S+", said)
            reasons = [] if link else [f"no link: {said}"]
            if link:
                page = Browser(accounts.public, accounts.keys[name]).connect(link.group())
                reasons += [] if "Your account is connected" in page else [f"not connected: {page[-400:]}"]
            yield Verdict(f"accounts {name}: the link connects an account", reasons)
            said, end = "", time.monotonic() + 10
            while said != f"user-{number}" and time.monotonic() < end:
                said = ask(accounts, cache, name, "whoami")
            yield Verdict(f"accounts {name}: calls are of its account", [] if said == f"user-{number}" else [said])
        # The tokens of the first have expired, and are renewed.
        for number, name in enumerate(CLIENT_NAMES, 1):
            said = ask(accounts, cache, name, "whoami")
            yield Verdict(f"accounts {name}: its token is renewed", [] if said == f"user-{number}" else [said])
    finally:
        complaint = accounts.stop()
    yield Verdict("accounts: the gateway stops on SIGTERM", [complaint] if complaint else [])
