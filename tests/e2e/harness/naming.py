"""A server's names and URIs at an endpoint: unchanged at its own endpoint, namespaced at the merged endpoint.

This is the gateway's specification, and not derived from its responses.
"""

import re

NAMED = ("call_tool", "get_prompt")
WITH_URI = ("read_resource", "subscribe", "unsubscribe")


class Plain:
    """The server's own names."""

    def name(self, own: str) -> str:
        return own

    def uri(self, own: str) -> str:
        return own


class Merged(Plain):
    """`slug__name` and `slug+scheme:rest`; `https:` links stay, `ui://` keeps its scheme."""

    def __init__(self, slug: str):
        self.slug = slug

    def name(self, own: str) -> str:
        return f"{self.slug}__{own}"

    def uri(self, own: str) -> str:
        if own.startswith("https:"):
            return own
        if own.startswith("ui://"):
            return f"ui://{self.slug}+{own[5:]}"
        return f"{self.slug}+{own}"


def exposed_step(step: dict, view: Plain) -> dict:
    """Returns a step with the names of this endpoint."""
    got = dict(step)
    if step["do"] in NAMED:
        got["name"] = view.name(step["name"])
    if step["do"] in WITH_URI:
        got["uri"] = view.uri(step["uri"])
    if step["do"] == "listen" and "uris" in step:
        got["uris"] = [view.uri(u) for u in step["uris"]]
    if step["do"] == "complete":
        ref = dict(step["ref"])
        ref.update({"name": view.name(ref["name"])} if "name" in ref else {"uri": view.uri(ref["uri"])})
        got["ref"] = ref
    if step["do"] == "parallel":
        got["steps"] = [exposed_step(inner, view) for inner in step["steps"]]
    return got


def exposed_pattern(pattern, view: Plain):
    """Replaces `{"$uri": own}` and `{"$name": own}` in an expectation with the names that the client sees."""
    if isinstance(pattern, list):
        return [exposed_pattern(inner, view) for inner in pattern]
    if not isinstance(pattern, dict):
        return pattern
    if "$uri" in pattern:
        return view.uri(pattern["$uri"])
    if "$name" in pattern:
        return view.name(pattern["$name"])
    return {key: exposed_pattern(inner, view) for key, inner in pattern.items()}


def exposed_item(kind: str, item: dict, view: Plain) -> dict:
    """Returns a list entry with the names that the client sees."""
    got = dict(item)
    if kind in ("tools", "prompts"):
        got["name"] = view.name(item["name"])
    for key in ("uri", "uriTemplate"):
        if key in item:
            got[key] = view.uri(item[key])
    return got


def fill(value, words: dict[str, str]):
    """Replaces `${word}` in every string of a case."""
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda m: words[m[1]], value)
    if isinstance(value, list):
        return [fill(inner, words) for inner in value]
    if isinstance(value, dict):
        return {key: fill(inner, words) for key, inner in value.items()}
    return value
