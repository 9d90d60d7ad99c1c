"""Topic names and filters: what is well formed and what matches (section 4.7, 4.8.2). Pure."""

from typing import Final, NamedTuple

from cloud.broker.codec.reasons import BrokenRule, ReasonCode

LEVELS_MAX: Final = 128
"""Levels in a name or filter; the spec has no bound, a tree walked by strangers needs one."""


class Shared(NamedTuple):
    """A share group: its name and the filter its members subscribe to (4.8.2)."""

    group: str
    topic_filter: str


def check_name(topic: str) -> None:
    """Raise `BrokenRule` 0x90 unless this may stand in a PUBLISH (4.7.1-1, 4.7.3-1)."""
    if not topic or "+" in topic or "#" in topic:
        why = "a topic name is not empty and holds no wildcard"
        raise BrokenRule(ReasonCode.TOPIC_NAME_INVALID, why)
    if topic.count("/") >= LEVELS_MAX:
        raise BrokenRule(
            ReasonCode.TOPIC_NAME_INVALID, f"a topic name has at most {LEVELS_MAX} levels"
        )


def is_filter(topic_filter: str) -> bool:
    """Say whether a plain filter is well formed (4.7.1-2, 4.7.1-3, 4.7.3-1)."""
    levels = topic_filter.split("/")
    if not topic_filter or len(levels) > LEVELS_MAX:
        return False
    return all(
        (level == "+" or "+" not in level)
        and ("#" not in level or (level == "#" and index == len(levels) - 1))
        for index, level in enumerate(levels)
    )


def split_shared(topic_filter: str) -> Shared | None:
    """Take `$share/group/filter` apart; None for a plain filter.

    Raises `BrokenRule` 0x8F for a group or filter that is empty or malformed (4.8.2-1, 4.8.2-2).
    """
    if not topic_filter.startswith("$share/"):
        return None
    _, group, *rest = topic_filter.split("/", 2)
    if not group or "+" in group or "#" in group or not rest or not is_filter(rest[0]):
        raise BrokenRule(ReasonCode.TOPIC_FILTER_INVALID, "want $share/<group>/<filter>")
    return Shared(group, rest[0])


def matches(topic_filter: str, topic: str) -> bool:
    """Say whether a topic name fits a filter; wildcards never match a leading $ (4.7.2-1)."""
    if topic.startswith("$") and topic_filter[0] in "+#":
        return False
    levels = topic.split("/")
    wanted = topic_filter.split("/")
    for index, want in enumerate(wanted):
        if want == "#":
            return True
        if index == len(levels) or (want not in ("+", levels[index])):
            return False
    return len(wanted) == len(levels)
