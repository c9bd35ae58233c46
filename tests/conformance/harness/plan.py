"""Which leg runs against which fixture, and how the gateway connects to it. A leg of one era on a server of the other is a
bridge, which cannot be measured directly: the reference is the fixture as a server of the leg's era."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .fixtures import FIXTURES, Fixture
from .suite import NOTICES, SERVER_LEGS, Leg

ENDPOINTS = {"one": "/servers/{slug}/mcp", "merged": "/mcp"}

# The runs without `--full`, by fixture and by era, upstream and endpoint of the server: each path through the gateway
# once. The README states their purpose.
SHORT = {
    "own": {
        "legacy stdio one": (
            *("notices 2026-07-28", "notices 2025-11-25", "0.1.16 all", "2025-06-18"),
            *("2025-11-25", "2026-07-28"),
        ),
        "legacy http one": ("notices 2026-07-28", "2025-11-25", "2026-07-28"),
        "modern http one": ("notices 2025-11-25", "2025-11-25", "requirements"),
        "both http one": ("2025-03-26", "2025-06-18"),
        "both http merged": (
            *("notices 2025-11-25", "notices 2026-07-28", "2025-11-25", "requirements"),
            *("skills enumeration", "skills manifest", "skills directory"),
        ),
    },
    "rmcp": {
        "both http one": ("notices 2025-11-25", "notices 2026-07-28", "2025-11-25", "2026-07-28"),
        "legacy http one": ("2026-07-28",),
    },
    "python": {
        "legacy http one": ("notices 2026-07-28", "2026-07-28"),
        "modern http one": ("2025-11-25",),
    },
    "python-sdk": {
        "both http one": ("notices 2025-11-25", "notices 2026-07-28", "2025-11-25", "2026-07-28"),
        "legacy stdio one": ("notices 2025-11-25",),
    },
    "typescript": {
        "both http one": ("notices 2025-11-25", "notices 2026-07-28", "2025-11-25", "2026-07-28"),
        "legacy http one": ("2026-07-28",),
        "modern http one": ("2025-11-25",),
    },
}


@dataclass(frozen=True)
class Run:
    leg: Leg
    fixture: Fixture
    era: str
    upstream: str
    endpoint: str

    @property
    def slug(self) -> str:
        """The fixture's name in its gateway, which runs it in every form."""
        return self.era if self.upstream == "http" else f"{self.era}-{self.upstream}"

    @property
    def base(self) -> tuple[Leg, Fixture, str]:
        """The direct run to compare with."""
        return self.leg, self.fixture, self.era if self.era in self.leg.eras else self.leg.eras[0]

    @property
    def base_name(self) -> str:
        return name_of_base(*self.base)

    @property
    def path(self) -> str:
        return ENDPOINTS[self.endpoint].format(slug=self.slug)

    @property
    def name(self) -> str:
        return f"{self.leg.name} {self.fixture.name} {self.era} {self.upstream} {self.path}"


def name_of_base(leg: Leg, fixture: Fixture, era: str) -> str:
    return f"{leg.name} {fixture.name} {era}"


FILTERS = ("leg", "fixture", "era", "upstream", "endpoint")


def is_whole(arguments) -> bool:
    """Returns whether no option restricts the run."""
    return all(getattr(arguments, name, "*") == "*" for name in FILTERS)


def runs(arguments) -> list[Run]:
    return [run for run in (everything() if arguments.full else short()) if is_wanted(run, arguments)]


def lanes(wanted: list[Run]) -> list[list[Run]]:
    """Returns the runs of each gateway, longest first: all legs of one fixture in sequence. Our own checks come first at a server,
    because they begin with two concurrent calls."""
    by_fixture: dict[str, list[Run]] = {}
    for run in sorted(wanted, key=lambda run: run.leg.suite != NOTICES):
        by_fixture.setdefault(run.fixture.name, []).append(run)
    return sorted(by_fixture.values(), key=len, reverse=True)


def is_wanted(run: Run, arguments) -> bool:
    is_called = (run.leg.name, run.fixture.name, run.era, run.upstream, run.endpoint)
    patterns = [getattr(arguments, name, "*") for name in FILTERS]
    return all(fnmatchcase(name, pattern) for name, pattern in zip(is_called, patterns))


def everything() -> Iterator[Run]:
    """Yields every leg on every fixture in every form. Over stdio a single endpoint is enough: the transport and the naming are
    independent. Beyond the leg 2026-07-28, the requirements include only its tasks extension, which no legacy server has."""
    eras = ("legacy", "modern", "both")
    for leg, fixture, era in itertools.product(SERVER_LEGS, FIXTURES.values(), eras):
        is_bridge = era not in leg.eras
        if is_bridge and (leg.name == "requirements" or not fixture.asks_both_ways):
            continue
        yield Run(leg, fixture, era, "http", "one")
        yield Run(leg, fixture, era, "http", "merged")
        yield Run(leg, fixture, era, "stdio", "one")


def short() -> Iterator[Run]:
    legs = {leg.name: leg for leg in SERVER_LEGS}
    for fixture, forms in SHORT.items():
        for form, names in forms.items():
            for name in names:
                yield Run(legs[name], FIXTURES[fixture], *form.split())


def direct(arguments) -> list[tuple[Leg, Fixture, str]]:
    """Returns every leg on every fixture that supports its era."""
    return [
        (leg, fixture, era)
        for fixture, leg in itertools.product(FIXTURES.values(), SERVER_LEGS)
        for era in leg.eras
        if fnmatchcase(leg.name, arguments.leg)
        and fnmatchcase(fixture.name, arguments.fixture)
        and fnmatchcase(era, arguments.era)
    ]
