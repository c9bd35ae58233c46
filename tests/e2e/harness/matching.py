"""Compares results with a case's expectations, and describes their differences in short.

An expectation is a pattern: an object matches if each of its keys matches (other keys are free), a list if the lengths are equal
and each element matches, and other values if they are equal. Operators are objects with one `$` key.
"""

import re

OPERATORS = {}


def operator(name):
    return lambda check: OPERATORS.setdefault(name, check)


def differences(pattern, got, at="$"):
    """Returns all differences, each as a short line; an empty list is a match."""
    if isinstance(pattern, dict) and len(pattern) == 1 and (name := next(iter(pattern))) in OPERATORS:
        return OPERATORS[name](pattern[name], got, at)
    if isinstance(pattern, dict):
        if not isinstance(got, dict):
            return [f"{at}: want an object, got {short(got)}"]
        if pattern.get("ok") is True and got.get("ok") is False:  # an outcome: its error is more specific than the missing keys
            return [f"{at}: want success, got {short(got.get('error'), 400)}"]
        found = []
        for key, inner in pattern.items():
            if key not in got and not (isinstance(inner, dict) and "$absent" in inner):
                found.append(f"{at}.{key}: missing, want {short(inner)}")
            else:
                found += differences(inner, got.get(key), f"{at}.{key}")
        return found
    if isinstance(pattern, list):
        if not isinstance(got, list) or len(got) != len(pattern):
            return [f"{at}: want {short(pattern)}, got {short(got)}"]
        return [line for i, inner in enumerate(pattern) for line in differences(inner, got[i], f"{at}[{i}]")]
    return [] if pattern == got else [f"{at}: want {short(pattern)}, got {short(got)}"]


def short(value, limit=160):
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


@operator("$any")
def _(_wanted, _got, _at):
    return []


@operator("$absent")
def _(_wanted, got, at):
    return [] if got is None else [f"{at}: want nothing, got {short(got)}"]


@operator("$regex")
def _(wanted, got, at):
    return [] if isinstance(got, str) and re.search(wanted, got, re.S) else [f"{at}: want /{wanted}/, got {short(got)}"]


@operator("$has")
def _(wanted, got, at):
    """Requires an element that matches for each pattern; order and other elements are free."""
    if not isinstance(got, list):
        return [f"{at}: want a list, got {short(got)}"]
    return [f"{at}: no element like {short(p)} among {len(got)}: {short(got)}"
            for p in wanted if all(differences(p, element) for element in got)]


@operator("$lacks")
def _(wanted, got, at):
    return [f"{at}: has an element like {short(p)}"
            for p in wanted if isinstance(got, list) and any(not differences(p, element) for element in got)]


@operator("$one_of")
def _(wanted, got, at):
    return [] if any(not differences(p, got) for p in wanted) else [f"{at}: want one of {short(wanted)}, got {short(got)}"]


@operator("$rising")
def _(wanted, got, at):
    """Requires at least `wanted` numbers in rising order."""
    ok = isinstance(got, list) and len(got) >= wanted and all(a < b for a, b in zip(got, got[1:]))
    return [] if ok else [f"{at}: want at least {wanted} rising numbers, got {short(got)}"]


@operator("$exactly")
def _(wanted, got, at):
    """Requires deep equality: keys without a pattern are differences."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        found = [f"{at}.{k}: unexpected {short(got[k], 60)}" for k in got.keys() - wanted.keys()]
        found += [f"{at}.{k}: missing, want {short(wanted[k], 60)}" for k in wanted.keys() - got.keys()]
        for key in wanted.keys() & got.keys():
            found += differences({"$exactly": wanted[key]}, got[key], f"{at}.{key}")
        return found
    if isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        return [x for i, w in enumerate(wanted) for x in differences({"$exactly": w}, got[i], f"{at}[{i}]")]
    return [] if wanted == got else [f"{at}: want {short(wanted, 80)}, got {short(got, 80)}"]
