"""What the API and the registry's own parts work on, and the one way for a change into the catalog."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Applied, Catalog
from cloud.registry.catalog.commands import Command
from cloud.registry.replication.replication import Replication

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Registry:
    """`now` gives Unix seconds."""

    name: str
    catalog: Catalog
    artifacts: Artifacts
    replication: Replication
    now: Callable[[], float]

    async def read(self, look: Callable[P, T], *asked: P.args, **named: P.kwargs) -> T:
        """One read of the catalog, off the event loop."""
        return await asyncio.to_thread(look, *asked, **named)

    async def apply(self, *commands: Command, actor: str) -> Applied:
        """All of them or none; what came of the last. Waiters for the log are woken.

        Raises `ReadOnly` where another registry is home, and as `Catalog.apply_all`.
        """
        self.replication.check_writable()
        applied = await asyncio.to_thread(self.catalog.apply_all, commands, actor, self.now())
        if applied.entries:
            self.replication.changed()
        return applied
