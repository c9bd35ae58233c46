"""All cases, as data. A case consists of steps for one server and their expectations; the runner multiplies it by clients, eras
and endpoints. Keys of a step in addition to the driver's (drivers/README.md):

`expect` pattern of the result · `error` code or list of codes · `notes` patterns that some notification from this step
on must match · `asked` the same for requests of the server · `rising` minimum of rising progress values ·
`eras` only there · `legacy`, `modern`, `direct` keys that replace others in that era, or without the gateway.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    name: str
    servers: tuple[str, ...]  # in turn; ("",) is the merged endpoint, with the names that the client sends
    steps: list[dict]
    answers: dict = field(default_factory=dict)
    eras: tuple[str, ...] = ("legacy", "modern")
    where: tuple[str, ...] = ("direct", "merged", "own", "stdio")
    inspector: bool = False  # also played by one-shot commands
    errors: bool = False  # a step returns a JSON-RPC error, see the README on sdk 1.x
    exclusive: bool = False  # changes state visible to other clients of the server


def every():
    from . import bridged, everything, interactive, others
    return [*everything.CASES, *others.CASES, *interactive.CASES, *bridged.CASES]
