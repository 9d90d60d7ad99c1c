"""A learning process over HTTP: its feedback, data sets, training jobs and loops."""

from collections.abc import Sequence
from random import Random
from ssl import SSLContext
from types import TracebackType
from typing import Final, Self

from cloud.fleet.client.reading import one
from cloud.learning.client.data_sets import DataSets
from cloud.learning.client.feedback import Feedback
from cloud.learning.client.jobs import Jobs
from cloud.learning.client.loops import Loops
from cloud.learning.client.pages import LearningState
from cloud.learning.client.settings import LearningClientSettings
from cloud.registry.client.connection import Connection


class LearningClient:
    """`async with LearningClient(urls, key) as learning: ...`; URLs are tried in their order.

    Everything raises what the process refuses with, in its words (`Unknown`, `Conflict`, ...), and
    `Unavailable` when it cannot be reached or puts a call off beyond `ClientSettings.patience_s`.
    """

    def __init__(
        self,
        urls: Sequence[str],
        key: str | None = None,
        settings: LearningClientSettings | None = None,
        rng: Random | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        """`tls`: None takes the system's authorities."""
        self.settings: Final = settings or LearningClientSettings()
        self.connection: Final = Connection(
            urls, key, self.settings, rng, tls, what="learning process"
        )
        self.feedback: Final = Feedback(self.connection, self.settings)
        self.data_sets: Final = DataSets(self.connection, self.settings)
        self.jobs: Final = Jobs(self.connection, self.settings)
        self.loops: Final = Loops(self.connection, self.settings)

    async def __aenter__(self) -> Self:
        await self.connection.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.connection.__aexit__(kind, error, trace)

    async def state(self) -> LearningState:
        return await one(self.connection, LearningState, "GET", "/v1/learning")
