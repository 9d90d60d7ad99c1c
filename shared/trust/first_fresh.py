"""One look at the registries, in their order: what fresh, verified metadata names.

A registry that answers wrongly, or never ends, only costs its time: the next one is asked.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol

from shared.errors import Disconnected, HybridgeError, NotTrusted
from shared.trust.releases import Trusted
from shared.trust.store import Fetch


class Refreshes(Protocol):
    """`shared.trust.store.TrustStore`."""

    async def refresh(self, fetch: Fetch, model: str, now: datetime) -> Trusted: ...


async def first_fresh(
    store: Refreshes,
    sources: Iterable[tuple[str, Fetch]],
    model: str,
    now: Callable[[], datetime],
    *,
    s_max: float,
) -> Trusted:
    """From the first of `sources` (URL, and what fetches there) whose metadata checks out and is
    fresh within `s_max` seconds. Raises what the last one said.
    """
    last: HybridgeError = Disconnected("no registry to look at; name one")
    for url, fetch in sources:
        try:
            async with asyncio.timeout(s_max):
                trusted = await store.refresh(fetch, model, now())
        except TimeoutError:
            last = Disconnected(f"{url}: its metadata did not come within {s_max:.0f} s")
        except HybridgeError as error:
            last = error
        else:
            if trusted.stale is None:
                return trusted
            last = NotTrusted(f"{url}: {trusted.stale}")
    raise last
