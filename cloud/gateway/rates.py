"""Rate limits as people write them: `100/second; 10000/hour`. Pure."""

from typing import Final

import limits
from limits import RateLimitItem

from shared.errors import Malformed

TEXT_MAX: Final = 200
"""Characters of all limits together."""
AMOUNT_MAX: Final = 1_000_000_000
PERIOD_S_MAX: Final = 366 * 86_400
"""Longer windows would outlive every worker that counts in memory."""
HOW: Final = "write it as '100/second; 10000/hour' (second, minute, hour, day, month, year)"


def parse_rates(text: str) -> tuple[RateLimitItem, ...]:
    """Give each limit once, in the order of the text.

    Raises:
        Malformed: it is too long, not in this form, allows nothing, or its window is over a year.

    """
    if len(text) > TEXT_MAX:
        raise Malformed(f"a rate has up to {TEXT_MAX} characters, this one {len(text)}; {HOW}")
    try:
        items = tuple(dict.fromkeys(limits.parse_many(text)))
    except ValueError as error:
        raise Malformed(f"rate {text!r}: {HOW}") from error
    for item in items:
        if not 1 <= item.amount <= AMOUNT_MAX:
            raise Malformed(f"rate {text!r}: an amount is 1 to {AMOUNT_MAX:,}; {HOW}")
        if item.get_expiry() > PERIOD_S_MAX:
            raise Malformed(f"rate {text!r}: a window is at most a year; {HOW}")
    return items


def said(item: RateLimitItem) -> str:
    """Say a limit as one would write it."""
    many = f"{item.multiples} " if item.multiples > 1 else ""
    return f"{item.amount}/{many}{item.GRANULARITY.name}"
