"""The legs of the suite, and running them. Checks are counted by scenario and id; as in the suite itself, only SUCCESS and FAILURE
count."""

import json
import re
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .install import HERE, Cache
from .processes import running

# An unanswered question takes a minute of it.
LEG_SECONDS = 400
SCENARIO_SECONDS = 90


@dataclass(frozen=True)
class Leg:
    name: str
    suite: str
    options: tuple[str, ...]
    eras: tuple[str, ...]


def _dated(revision: str, eras: tuple[str, ...]) -> Leg:
    options = ("--suite", "all", "--spec-version", revision)
    return Leg(revision, "conformance-0.2", options, eras)


def _notices(revision: str, eras: tuple[str, ...]) -> Leg:
    return Leg(f"notices {revision}", NOTICES, (revision,), eras)


def _skills(scenario: str) -> Leg:
    name = f"sep-2640-skills-{scenario}"
    options = ("--scenario", name, "--spec-version", "2026-07-28", "--force")
    return Leg(f"skills {scenario}", "conformance-0.2", options, MODERN)


# Our checks in addition to the suite's: notices.mjs.
NOTICES = "notices"
LEGACY = ("legacy", "both")
MODERN = ("modern", "both")
SERVER_LEGS = (
    Leg("0.1.16 all", "conformance-0.1", ("--suite", "all"), LEGACY),
    _dated("2025-03-26", LEGACY),
    _dated("2025-06-18", LEGACY),
    _dated("2025-11-25", LEGACY),
    _dated("2026-07-28", MODERN),
    # The frozen requirements, and the tasks extension.
    Leg("requirements", "conformance-0.2", ("--requirements", "2026-07-28"), MODERN),
    _notices("2025-11-25", LEGACY),
    _notices("2026-07-28", MODERN),
    # An extension, outside of the requirements.
    _skills("enumeration"),
    _skills("manifest"),
    _skills("directory"),
)

# With the gateway as an OAuth client; the driver plays the user's browser.
AUTH_SCENARIOS = tuple(
    f"auth/{name}"
    for name in (
        "metadata-default",
        "metadata-var1",
        "metadata-var2",
        "metadata-var3",
        "scope-from-www-authenticate",
        "scope-from-scopes-supported",
        "scope-omitted-when-undefined",
        "scope-step-up",
        "scope-retry-limit",
        "token-endpoint-auth-basic",
        "token-endpoint-auth-post",
        "token-endpoint-auth-none",
        "pre-registration",
        "resource-mismatch",
        "offline-access-scope",
        "offline-access-not-supported",
        "iss-supported",
        "iss-not-advertised",
        "iss-supported-missing",
        "iss-wrong-issuer",
        "iss-unexpected",
        "iss-normalized",
        "metadata-issuer-mismatch",
        "client-credentials-basic",
        "client-credentials-jwt",
        "wif-jwt-bearer",
    )
)

CLIENT_LEGS = tuple(
    (suite, revision, scenario)
    for suite, revision, scenarios in (
        (
            "conformance-0.1",
            None,
            ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
        ),
        ("conformance-0.2", "2025-06-18", ("initialize", "tools_call")),
        (
            "conformance-0.2",
            "2025-11-25",
            (
                "initialize",
                "tools_call",
                "elicitation-sep1034-client-defaults",
                "sse-retry",
                "json-schema-2020-12-preservation",
            ),
        ),
        (
            "conformance-0.2",
            "2026-07-28",
            (
                "tools_call",
                "request-metadata",
                "sep-2322-client-request-state",
                "http-standard-headers",
                "http-custom-headers",
                "http-invalid-tool-headers",
                "json-schema-ref-no-deref",
                "json-schema-2020-12-preservation",
                *AUTH_SCENARIOS,
            ),
        ),
    )
    for scenario in scenarios
)

# Without `--full`: the scenarios of the two revisions that represent an era.
SHORT_CLIENT_LEGS = tuple(leg for leg in CLIENT_LEGS if leg[1] in ("2025-11-25", "2026-07-28"))

# Client scenarios that are skipped, by prefix of their name.
EXCLUDED_CLIENT = {
    "auth/basic-cimd": "the gateway's client document needs a public https address",
    "auth/2025-03-26-": "the authorization of the first revision",
    "auth/authorization-server-migration": "a change of the server's metadata is not noticed at once",
    "auth/dpop": "tokens are bearer tokens",
    "auth/enterprise-managed-authorization": "the subject is an ID token; the gateway has its caller's access token",
    "sep-2640-client-": "skills are loaded by the client itself; a gateway passes resources through",
}


@dataclass
class Outcome:
    """The results of a leg: checks by key, and the message of each failure."""

    passed: Counter = field(default_factory=Counter)
    failed: Counter = field(default_factory=Counter)
    words: dict = field(default_factory=dict)
    scenarios: set = field(default_factory=set)
    error: str | None = None
    seconds: float = 0

    def passing_scenarios(self, prefix: str = "") -> int:
        broken = {key[0] for key in self.failed}
        return sum(1 for name in self.scenarios if name.startswith(prefix) and name not in broken)

    def count(self, prefix: str = "") -> str:
        names = [name for name in self.scenarios if name.startswith(prefix)]
        passed = sum(n for key, n in self.passed.items() if key[0].startswith(prefix))
        failed = sum(n for key, n in self.failed.items() if key[0].startswith(prefix))
        return f"{self.passing_scenarios(prefix)}/{len(names)} {passed}/{passed + failed}"

    def add(self, scenario: str, checks: list) -> None:
        self.scenarios.add(scenario)
        for check in checks:
            key = (scenario, check["id"])
            if check["status"] == "SUCCESS":
                self.passed[key] += 1
            elif check["status"] == "FAILURE":
                self.failed[key] += 1
            if check["status"] != "SUCCESS" and check.get("errorMessage"):
                self.words[key] = check["errorMessage"]


def server(cache: Cache, leg: Leg, url: str, folder: Path, slug: str | None = None) -> Outcome:
    """Runs a leg against an endpoint; `slug` prefixes the fixture's names there."""
    if leg.suite == NOTICES:
        command = [cache.node, HERE / "notices.mjs", cache.folder, *leg.options, "--url", url]
        command += ["--slug", slug] if slug else []
    else:
        bundle = cache.bundle(f"{leg.suite}-{slug}" if slug else leg.suite)
        command = [cache.node, bundle, "server", "--url", url, *leg.options]
    return _run(command, folder, "server", LEG_SECONDS)


def client(cache: Cache, leg: tuple, command: str, folder: Path) -> Outcome:
    """Runs a client scenario; `command` gets the mock server's URL as its last argument."""
    suite, revision, scenario = leg
    options = ["--scenario", scenario, "--command", command, "--timeout", "60000"]
    if revision:
        options += ["--spec-version", revision]
    if scenario.startswith(("auth/client-credentials-", "auth/wif-")):
        # Extensions are not of the revision.
        options.append("--force")
    return _run([cache.node, cache.bundle(suite), "client", *options], folder, "", SCENARIO_SECONDS)


def kept(folder: Path) -> Outcome:
    """Returns the results of a leg of an earlier run."""
    return _read(folder, "server", Outcome())


def _run(command: list, folder: Path, kind: str, seconds: int) -> Outcome:
    results = folder / "results"
    results.mkdir(parents=True)
    log = folder / "suite.log"
    outcome = Outcome()
    began = time.monotonic()
    with log.open("wb") as output:
        try:
            words = [*map(str, command), "--output-dir", str(results)]
            with running(words, folder / "suite-errors.log", output) as child:
                child.wait(seconds)
        except subprocess.TimeoutExpired:
            outcome.error = f"the suite did not end within {seconds} s"
    outcome.seconds = time.monotonic() - began
    return _read(folder, kind, outcome)


def _read(folder: Path, kind: str, outcome: Outcome) -> Outcome:
    results = folder / "results"
    for file in sorted(results.rglob("checks.json")):
        outcome.add(_scenario(file.parent.relative_to(results), kind), json.loads(file.read_text()))
    if not outcome.scenarios and not outcome.error:
        texts = [file.read_text(errors="replace")[-1000:] for file in folder.glob("suite*.log")]
        outcome.error = "no results\n" + "\n".join(texts)
    return outcome


def _scenario(folder: Path, kind: str) -> str:
    """Result folders are named KIND-SCENARIO-TIME, and a scenario may contain a slash."""
    name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z?$", "", str(folder))
    return name.removeprefix(f"{kind}-") if kind else name
