"""Who the loop is to queue and feedback store, and that nobody else is."""

from typing import Final

from shared.errors import Forbidden

ACTOR: Final = "loop"
"""As their logs name it. By it cycles find again what they made, so no caller may have it."""


def check_is_another(caller: str) -> None:
    """Raises `Forbidden` for a key or token that has the loop's own name."""
    if caller == ACTOR:
        raise Forbidden(
            f"a caller named {ACTOR!r} may change nothing here: what the loop makes goes by that name; "
            "make a key of another name (hybridge key)"
        )
