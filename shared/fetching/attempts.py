"""A file from whichever server has it: URLs in order, then again after a pause, a bounded number of
times in a row without progress.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from shared.backoff import Jitter, pause_s
from shared.disk import NoRoom
from shared.errors import Disconnected, Forbidden, HybridgeError, NotTrusted, Unavailable, Unknown
from shared.fetching.pace import Pace
from shared.fetching.partial import beside
from shared.fetching.transfer import Progress, fetch_file


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try."""

    rounds_max: int = 5
    """Rounds over all URLs in a row in which not a byte came."""

    backoff_s_min: float = 0.5
    """Seconds; the bound of the first pause, doubled with each, before jitter."""

    backoff_s_max: float = 60.0
    """Seconds."""

    stall_s: float = 30.0
    """Seconds in which at least one KiB must come."""


async def fetch_from(
    session: aiohttp.ClientSession,
    urls: Sequence[str],
    target: Path,
    *,
    sha256: str,
    bytes: int,  # noqa: A002  as manifests call it
    headers: Callable[[], Mapping[str, str]] = dict,
    pace: Pace | None = None,
    on_progress: Progress | None = None,
    patience: Patience = Patience(),
    rng: Jitter | None = None,
) -> None:
    """`fetch_file` from the first of `urls` that gives it; a cut is resumed, at the next if need be.

    Raises what the last URL said: `NotTrusted`, `Unknown` or `Forbidden` at once when every URL
    says so (trying again changes nothing), another `Unavailable` after `rounds_max` rounds, and
    a full disk at once.
    """
    jitter = rng or random.Random()  # noqa: S311  for spreading load
    failures = 0
    while True:
        before = _here(target)
        errors: list[HybridgeError] = []
        for url in urls:
            try:
                await fetch_file(
                    session, url, target, sha256=sha256, bytes=bytes, headers=headers(), pace=pace,
                    on_progress=on_progress, stall_s=patience.stall_s,
                )  # fmt: skip
            except NoRoom:
                raise
            except (Unavailable, NotTrusted, Unknown, Forbidden) as error:
                errors.append(error)
            else:
                return
        final = errors[-1] if errors else Disconnected("no URL to fetch from; name one")
        if not any(isinstance(error, Unavailable) for error in errors):
            raise final
        failures = 1 if _here(target) > before else failures + 1
        if failures >= patience.rounds_max:
            raise next(error for error in errors if isinstance(error, Unavailable))
        asked = max(e.retry_after_s or 0.0 for e in errors if isinstance(e, Unavailable))
        await asyncio.sleep(
            pause_s(failures, patience.backoff_s_min, patience.backoff_s_max, jitter, asked)
        )


def _here(target: Path) -> int:
    try:
        return beside(target, ".partial").stat().st_size
    except OSError:
        return 0
