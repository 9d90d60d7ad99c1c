"""Did you mean ...? For names that a registry has. Commands are typer's own to suggest."""

from collections.abc import Iterable
from difflib import get_close_matches

_NAME_MAX = 200  # characters; comparing is quadratic


def closest(wrong: str, names: Iterable[str], at_most: int = 3) -> list[str]:
    """The most alike first."""
    return get_close_matches(wrong[:_NAME_MAX], list(names), n=at_most, cutoff=0.6)


def question(wrong: str, names: Iterable[str]) -> str:
    """`. Did you mean 'fashion-edge'?`, or nothing."""
    if found := closest(wrong, names):
        return f". Did you mean {' or '.join(map(repr, found))}?"
    return ""


def version_question(wrong: str, versions: Iterable[str]) -> str:
    """Versions are all alike: the closest, else the newest ones."""
    known = list(versions)
    if not known:
        return ". It has no versions yet"
    if found := closest(wrong, known):
        return f". Did you mean {' or '.join(found)}?"
    return f". There is {', '.join(known[-5:])}"
