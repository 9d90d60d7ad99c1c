"""How two topic filters relate: one covers another, or both share a topic (section 4.7). Pure."""

from typing import Final

_TWINS: Final = {"+/#": "#", "/#": "/+/#"}
"""Filters that match the same topics though their levels differ: no topic is empty (4.7.3-1)."""


def _levels(topic_filter: str) -> list[str]:
    return _TWINS.get(topic_filter, topic_filter).split("/")


def _parted_by_dollar(wild: str, named: str) -> bool:
    """Say whether `named` asks for $ topics only and `wild` for all but those (4.7.2-1)."""
    return named[0] == "$" and wild[0] in "+#"


def covers(broad: str, narrow: str) -> bool:
    """Say whether every topic that `narrow` matches is matched by `broad`.

    Exact for well formed filters (`codec.topics.is_filter`), not only safe: a filter covers itself,
    `a/#` covers its parent `a`, and no wildcard at the start covers a leading `$`.
    """
    if _parted_by_dollar(broad, narrow):
        return False
    asked = _levels(narrow)
    allowed = _levels(broad)
    for index, level in enumerate(allowed):
        if level == "#":
            return True
        if index == len(asked) or asked[index] == "#" or level not in ("+", asked[index]):
            return False
    return len(allowed) == len(asked)


def overlaps(one: str, other: str) -> bool:
    """Say whether some topic is matched by both filters. Exact for well formed filters."""
    if _parted_by_dollar(one, other) or _parted_by_dollar(other, one):
        return False
    ones = _levels(one)
    others = _levels(other)
    for left, right in zip(ones, others, strict=False):
        if "#" in (left, right):
            return True
        if left != right and "+" not in (left, right):
            return False
    # the longer one may still end in # and so match its parent level
    shorter, longer = sorted((ones, others), key=len)
    return len(shorter) == len(longer) or longer[len(shorter)] == "#"
