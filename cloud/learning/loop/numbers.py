"""The number of a new version. Pure."""

from collections.abc import Iterable
from typing import Final

_MAX: Final = 999_999


def next_version(before: str, taken: Iterable[str]) -> str:
    """The next patch number after `before` that nobody has, deleted versions included.

    Raises `OverflowError` where no patch number is left.
    """
    major, minor, patch = (int(part) for part in before.split("."))
    taken_ones = {tuple(int(part) for part in one.split(".")) for one in taken}
    number = patch + 1
    while (major, minor, number) in taken_ones:
        number += 1
    if number > _MAX:
        raise OverflowError(f"no patch number is left after {before}")
    return f"{major}.{minor}.{number}"
