"""Compares the losses with the permitted ones. A loss without a stated reason is a failure, and so is, in a full run, an entry that
matches no loss."""

import re
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from .install import HERE
from .suite import Outcome

FILE = HERE / "expected-failures.yaml"
SECTIONS = ("direct", "server", "client")
KEYS = {"leg", "check", "reason"}
# `sometimes: "yes"`: for losses that depend on the machine, so that their absence is no mistake. `message`: a pattern that the
# check's message must match as well.
OPTIONAL = {"sometimes", "message"}


@dataclass(frozen=True)
class Expected:
    """`leg` and `check` are shell patterns; a check is written SCENARIO:CHECK-ID."""

    leg: str
    check: str
    reason: str
    sometimes: str = ""
    message: str = "*"

    def covers(self, leg: str, check: str, message: str) -> bool:
        return fnmatchcase(leg, self.leg) and fnmatchcase(check, self.check) and fnmatchcase(message, self.message)


def expected(section: str, file: Path = FILE) -> list[Expected]:
    """Parses a section of the file, in exactly the form that the file documents."""
    found: dict[str, list[dict]] = {}
    current: str | None = None
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if heading := re.fullmatch(r"(\w+):( \[\])?", line):
            current = heading[1]
            if current not in SECTIONS or current in found:
                raise ValueError(f"{file.name}:{number}: unknown or repeated section {current}")
            found[current] = []
        elif (entry := re.fullmatch(r'  ([ -]) (\w+): "([^"]+)"', line)) and current:
            if entry[1] == "-":
                found[current].append({})
            if not found[current] or entry[2] not in KEYS | OPTIONAL or entry[2] in found[current][-1]:
                raise ValueError(f"{file.name}:{number}: unexpected key {entry[2]}")
            found[current][-1][entry[2]] = entry[3]
        else:
            raise ValueError(f"{file.name}:{number}: not understood: {line!r}")
    for entry in found.get(section, []):
        if not entry.keys() >= KEYS:
            raise ValueError(f"{file.name}: an entry of {section} lacks {KEYS - entry.keys()}")
    return [Expected(**entry) for entry in found.get(section, [])]


class Report:
    """The rows of the table, and the verdict on the run."""

    def __init__(self, section: str, columns: list[str]):
        self.allowed = expected(section)
        self.used: set[Expected] = set()
        self.legs: set[str] = set()
        self.failed: set[str] = set()
        self.rows = [columns]
        self.problems: list[str] = []
        self.known: list[str] = []
        # By reason: the lost checks, and their legs.
        self.lost: dict[str, tuple[set[str], set[str]]] = {}

    def row(self, *cells: str) -> None:
        self.rows.append([str(cell) for cell in cells])

    def failures(self, leg: str, outcome: Outcome) -> None:
        """Every failed check of a leg is a loss."""
        self._judge(leg, outcome.failed, outcome)

    def compare(self, leg: str, direct: Outcome, through: Outcome) -> Counter:
        """A check with fewer passes or more failures through the gateway than directly is a loss."""
        lost = direct.passed - through.passed
        lost |= through.failed - direct.failed
        self._judge(leg, lost, through)
        return lost

    def _judge(self, leg: str, lost: Counter, outcome: Outcome) -> None:
        self.legs.add(leg)
        if outcome.error:
            self._fail(leg, outcome.error)
        for (scenario, check), times in sorted(lost.items()):
            words = outcome.words.get((scenario, check), "not reported as passed")
            line = f"{scenario}:{check} x{times}: {words}"
            covering = [
                entry for entry in self.allowed if entry.covers(leg, f"{scenario}:{check}", words)
            ]
            self.used.update(covering)
            reason = covering[0].reason if covering else "not expected"
            checks, legs = self.lost.setdefault(reason, (set(), set()))
            checks.add(f"{scenario}:{check}")
            legs.add(leg)
            if covering:
                self.known.append(f"{leg}: {line} [{covering[0].reason}]")
            else:
                self._fail(leg, line)

    def _fail(self, leg: str, words: str) -> None:
        self.failed.add(leg)
        self.problems.append(f"{leg}: {words}")

    def print(self, whole: bool) -> None:
        """Prints everything. `whole` is false for a subset of the legs: a permitted loss may then occur elsewhere."""
        widths = [max(len(row[i]) for row in self.rows) for i in range(len(self.rows[0]))]
        for row in self.rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        for entry in self.allowed:
            ran = any(fnmatchcase(leg, entry.leg) for leg in self.legs)
            if whole and ran and entry not in self.used and not entry.sometimes:
                self.problems.append(f"expected, but not lost: {entry.leg}: {entry.check}")
        for title, lines in (("Expected losses", self.known), ("PROBLEMS", self.problems)):
            if lines:
                print(f"\n{title}:")
                for line in lines:
                    print(f"  - {line}")
        print()
