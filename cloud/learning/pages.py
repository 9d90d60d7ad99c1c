"""Reading the feedback store's samples page by page, bounded. Synchronous."""

from collections.abc import Iterator
from typing import Protocol

from cloud.feedback.documents import FeedbackSample, SampleQuery


class Page(Protocol):
    """Of samples, the newest first."""

    @property
    def samples(self) -> tuple[FeedbackSample, ...]: ...

    @property
    def next(self) -> str | None: ...


class SamplePages(Protocol):
    """The feedback store."""

    def samples(self, query: SampleQuery, after: str | None, limit: int) -> Page: ...


def all_samples(
    pages: SamplePages, query: SampleQuery, step: int, at_most: int
) -> Iterator[FeedbackSample]:
    """The newest first, `step` of them at a time."""
    after: str | None = None
    left = at_most
    while left > 0:
        page = pages.samples(query, after, min(step, left))
        yield from page.samples
        left -= len(page.samples)
        if page.next is None or not page.samples:
            return
        after = page.next
