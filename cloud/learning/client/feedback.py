"""The feedback store: samples that came back, and what people say they show."""

from collections.abc import AsyncIterator
from typing import Final

from cloud.feedback.documents import (
    Deleted,
    Deletion,
    FeedbackSample,
    FeedbackState,
    SampleQuery,
)
from cloud.fleet.client.reading import one, read
from cloud.learning.client.pages import SamplePage
from cloud.learning.client.settings import LearningClientSettings
from cloud.registry.client.connection import Connection, quoted
from shared.errors import TooLarge

_PATH: Final = "/v1/feedback"
Asked = dict[str, str | int | float | None]


class Feedback:
    """Of one `LearningClient`; raises as it does."""

    def __init__(self, connection: Connection, settings: LearningClientSettings) -> None:
        self._connection: Final = connection
        self._settings: Final = settings

    async def state(self) -> FeedbackState:
        return await one(self._connection, FeedbackState, "GET", _PATH)

    async def samples(self, query: SampleQuery, at_most: int | None = None) -> list[FeedbackSample]:
        """The newest first, page by page. Raises `TooLarge` over `rows_max`."""
        found: list[FeedbackSample] = []
        async for page in self.pages(query, at_most):
            found += page
            if at_most is not None and len(found) >= at_most:
                return found[:at_most]
            if len(found) > self._settings.rows_max:
                raise TooLarge(
                    f"over {self._settings.rows_max} samples; narrow them, or set a limit"
                )
        return found

    async def pages(
        self, query: SampleQuery, at_most: int | None = None
    ) -> AsyncIterator[tuple[FeedbackSample, ...]]:
        """Until there are no more; whoever asks may stop early."""
        path, asked = f"{_PATH}/samples", _asked(query)
        after: str | None = None
        while True:
            limit = min(self._settings.page, at_most or self._settings.page)
            found = await self._connection.json(
                "GET", path, query=asked | {"after": after, "limit": limit}
            )
            page = read(SamplePage, found, path)
            yield page.samples
            # an answer that goes round ends here
            if page.next is None or not page.samples or page.next == after:
                return
            after = page.next

    async def sample(self, device: str, sample: str) -> FeedbackSample:
        return await one(self._connection, FeedbackSample, "GET", _sample(device, sample))

    async def tensor(self, device: str, sample: str) -> bytes:
        """As .npy."""
        answer = await self._connection.call("GET", f"{_sample(device, sample)}/tensor")
        return answer.body

    async def image(self, device: str, sample: str) -> bytes:
        """As PNG. Raises `Refused` where it is no image."""
        answer = await self._connection.call("GET", f"{_sample(device, sample)}/image")
        return answer.body

    async def label(
        self, device: str, sample: str, label: int, comment: str = ""
    ) -> FeedbackSample:
        """What the caller says it shows; replaces his own earlier word."""
        path = f"{_sample(device, sample)}/label"
        document = {"label": label, "comment": comment}
        return await one(self._connection, FeedbackSample, "PUT", path, document)

    async def unlabel(self, device: str, sample: str) -> None:
        """Take back the caller's own word."""
        await self._connection.json(
            "DELETE", f"{_sample(device, sample)}/label", is_repeatable=True
        )

    async def delete(self, deletion: Deletion) -> Deleted:
        """Deleting again deletes what came since, so a lost line is asked again."""
        path = f"{_PATH}/delete"
        document = deletion.model_dump(mode="json", exclude_none=True)
        found = await self._connection.json("POST", path, document=document, is_repeatable=False)
        return read(Deleted, found, path)


def _sample(device: str, sample: str) -> str:
    return f"{_PATH}/samples/{quoted(device)}/{quoted(sample)}"


def _asked(query: SampleQuery) -> Asked:
    """As the API takes it: what is not asked for is left out."""
    tree = query.model_dump(mode="json", exclude_none=True)
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in tree.items()
        if value is not False
    }
