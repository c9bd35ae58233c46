"""Writes the results of a run into README.md, between two marks. The tables there are generated."""

from .fixtures import FIXTURES
from .install import HERE
from .losses import Report
from .plan import ENDPOINTS

FILE = HERE / "README.md"
BEGIN, END = "<!-- measured by `run server --full --record` -->\n", "<!-- end of what was measured -->\n"


def write(report: Report, results: list) -> None:
    text = FILE.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    parts = [table(results, upstream, endpoint) for upstream, endpoint in forms(results)]
    FILE.write_text(before + BEGIN + "\n" + "\n".join([*parts, losses(report)]) + "\n" + END + after)


def forms(results: list) -> list[tuple[str, str]]:
    return list(dict.fromkeys((run.upstream, run.endpoint) for run, _, _ in results))


def table(results: list, upstream: str, endpoint: str) -> str:
    """Rows are legs on servers of one era, columns are fixtures: passed checks, directly → through."""
    names = [name for name in FIXTURES if any(run.fixture.name == name for run, _, _ in results)]
    cells: dict = {}
    for run, base, outcome in results:
        if (run.upstream, run.endpoint) == (upstream, endpoint):
            passed, kept = base.passed.total(), outcome.passed.total()
            cells.setdefault((run.leg.name, run.era), {})[run.fixture.name] = f"{passed} → {kept}"
    lines = [
        f"Servers over {upstream}, at `{ENDPOINTS[endpoint]}`:",
        "",
        f"| leg | server | {' | '.join(names)} |",
        f"|---|---|{'---|' * len(names)}",
    ]
    for (leg, era), row in cells.items():
        measured = " | ".join(row.get(name, "–") for name in names)
        lines.append(f"| {leg} | {era} | {measured} |")
    return "\n".join(lines) + "\n"


def losses(report: Report) -> str:
    """Returns the lost checks by reason."""
    lines = ["| lost | in runs | reason |", "|---|---:|---|"]
    for reason, (checks, legs) in report.lost.items():
        scenarios: dict[str, list[str]] = {}
        for check in sorted(checks):
            scenario, name = check.split(":", 1)
            scenarios.setdefault(scenario, []).append(name)
        named = [
            f"`{scenario}`: {names[0]}" if len(names) == 1 else f"`{scenario}` ({len(names)} checks)"
            for scenario, names in scenarios.items()
        ]
        lines.append(f"| {'; '.join(named)} | {len(legs)} | {reason} |")
    return "\n".join(lines) + "\n" if report.lost else "Nothing is lost.\n"
