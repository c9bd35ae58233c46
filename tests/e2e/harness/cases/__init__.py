"""All cases, as data. A case is steps for one server and what must come of them; the runner multiplies it by clients,
eras and endpoints. Keys of a step beside the driver's own (drivers/README.md):

`expect` pattern of the result · `error` code or list of codes · `notes` patterns that some notification from this step
on must match · `asked` the same for requests of the server · `rising` least number of rising progress values ·
`eras` only there · `legacy`, `modern`, `direct` keys that replace others in that era, or without the gateway.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    name: str
    servers: tuple[str, ...]  # each in turn; ("",) is the merged endpoint with names given as the client sends them
    steps: list[dict]
    answers: dict = field(default_factory=dict)
    eras: tuple[str, ...] = ("legacy", "modern")
    where: tuple[str, ...] = ("direct", "merged", "own", "stdio")
    inspector: bool = False  # may be played by one-shot commands too
    errors: bool = False  # the server answers some step with a JSON-RPC error, see the README on sdk 1.x
    exclusive: bool = False  # touches state that other clients of the same server would see


def every():
    from . import bridged, everything, interactive, others
    return [*everything.CASES, *others.CASES, *interactive.CASES, *bridged.CASES]
