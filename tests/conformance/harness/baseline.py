"""The results of each fixture without a gateway, recorded in direct.json by `run direct --record`. A run without `--full` compares
with them instead of measuring again."""

import hashlib
import json
from collections import Counter

from .install import HERE, MANIFESTS, REQUIREMENTS
from .suite import Outcome

FILE = HERE / "direct.json"


def pins() -> str:
    """Returns a hash of the figures' dependencies other than the fixtures."""
    files = (HERE / name for name in (*MANIFESTS, REQUIREMENTS))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def write(outcomes: dict[str, Outcome]) -> None:
    """Writes equal legs once, and each check as its numbers of passes and failures."""
    groups: dict[str, list[str]] = {}
    for name, outcome in outcomes.items():
        scenarios: dict[str, dict] = {scenario: {} for scenario in sorted(outcome.scenarios)}
        for scenario, check in sorted(outcome.passed.keys() | outcome.failed.keys()):
            key = (scenario, check)
            scenarios[scenario][check] = [outcome.passed[key], outcome.failed[key]]
        lines = [f"    {json.dumps(name)}: {json.dumps(checks)}" for name, checks in scenarios.items()]
        groups.setdefault(",\n".join(lines), []).append(name)
    parts = [f'  {{"legs": {json.dumps(names)}, "scenarios": {{\n{text}\n  }}}}' for text, names in groups.items()]
    FILE.write_text(f'{{"pins": "{pins()}", "outcomes": [\n' + ",\n".join(parts) + "\n]}\n")


def read() -> dict[str, Outcome]:
    found = json.loads(FILE.read_text())
    if found["pins"] != pins():
        raise SystemExit("direct.json was recorded with other packages: `tests/conformance/run direct --record`")
    outcomes = {}
    for group in found["outcomes"]:
        checks = {
            (scenario, check): times
            for scenario, checks in group["scenarios"].items()
            for check, times in checks.items()
        }
        passed = Counter({key: times[0] for key, times in checks.items() if times[0]})
        failed = Counter({key: times[1] for key, times in checks.items() if times[1]})
        for name in group["legs"]:
            outcomes[name] = Outcome(passed, failed, scenarios=set(group["scenarios"]))
    return outcomes
