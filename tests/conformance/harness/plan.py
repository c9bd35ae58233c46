"""Which leg runs against which fixture, and how the gateway reaches it. A leg of one era on a server of the other is
a bridge: nothing can be measured directly there, so what the fixture does as a server of the leg's era alone is the
aim."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .fixtures import FIXTURES, Fixture
from .suite import SERVER_LEGS, Leg

SLUG = "fixture"
ENDPOINTS = {"one": f"/servers/{SLUG}/mcp", "merged": "/mcp"}
# With the fixtures of the SDKs, the two revisions that people meet most and our own checks; `--all` runs every leg.
SHORT_LEGS = ("2025-11-25", "2026-07-28", "notices 2025-11-25", "notices 2026-07-28")


@dataclass(frozen=True)
class Run:
    leg: Leg
    fixture: Fixture
    era: str
    upstream: str
    endpoint: str

    @property
    def base(self) -> tuple[Leg, Fixture, str]:
        """What to run directly, to compare with."""
        return self.leg, self.fixture, self.era if self.era in self.leg.eras else self.leg.eras[0]

    @property
    def base_names(self) -> tuple[str, str, str]:
        leg, fixture, era = self.base
        return leg.name, fixture.name, era

    @property
    def path(self) -> str:
        return ENDPOINTS[self.endpoint]

    @property
    def name(self) -> str:
        return f"{self.leg.name} {self.fixture.name} {self.era} {self.upstream} {self.path}"


FILTERS = ("leg", "fixture", "era", "upstream", "endpoint")


def is_whole(arguments) -> bool:
    """Nothing was left out by an option."""
    return all(getattr(arguments, name, "*") == "*" for name in FILTERS)


def runs(arguments) -> list[Run]:
    return [run for run in (everything() if arguments.all else short()) if is_wanted(run, arguments)]


def is_wanted(run: Run, arguments) -> bool:
    is_called = (run.leg.name, run.fixture.name, run.era, run.upstream, run.endpoint)
    patterns = [getattr(arguments, name) for name in FILTERS]
    return all(fnmatchcase(name, pattern) for name, pattern in zip(is_called, patterns))


def everything() -> Iterator[Run]:
    """Every leg on every fixture in every form. One endpoint is enough over stdio: how a server is reached and how
    its names are written do not meet. What the requirements ask beside the leg 2026-07-28 is its extension for tasks,
    which no legacy server can have."""
    eras = ("legacy", "modern", "both")
    for leg, fixture, era in itertools.product(SERVER_LEGS, FIXTURES.values(), eras):
        if leg.name == "requirements" and era not in leg.eras:
            continue
        yield Run(leg, fixture, era, "http", "one")
        yield Run(leg, fixture, era, "http", "merged")
        yield Run(leg, fixture, era, "stdio", "one")


def short() -> Iterator[Run]:
    """What CI runs."""
    for leg in SERVER_LEGS:
        for era, endpoint in itertools.product(leg.eras, ENDPOINTS):
            yield Run(leg, FIXTURES["own"], era, "http", endpoint)
    for run in everything():
        plain = run.upstream == "http" and run.endpoint == "one"
        if plain and run.fixture.name != "own" and run.leg.name in SHORT_LEGS:
            yield run


def direct(arguments) -> list[tuple[Leg, Fixture, str]]:
    """Every leg on every fixture that can serve it."""
    return [
        (leg, fixture, era)
        for fixture, leg in itertools.product(FIXTURES.values(), SERVER_LEGS)
        for era in leg.eras
        if fnmatchcase(leg.name, arguments.leg)
        and fnmatchcase(fixture.name, arguments.fixture)
        and fnmatchcase(era, arguments.era)
    ]
