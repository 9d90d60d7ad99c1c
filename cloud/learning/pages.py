"""Reading the feedback store's samples page by page, bounded. Synchronous."""

from collections.abc import Iterator
from typing import Protocol

from cloud.feedback.documents import FeedbackSample, SampleQuery


class SamplePages(Protocol):
    """The feedback store."""

    def samples(
        self, query: SampleQuery, after: int | None = None, limit: int = 100
    ) -> tuple[list[FeedbackSample], int | None]:
        """The newest first, and what to ask for `after`; None: there are no more."""
        ...


def all_samples(
    pages: SamplePages, query: SampleQuery, step: int, at_most: int
) -> Iterator[FeedbackSample]:
    """The newest first, `step` of them at a time."""
    after: int | None = None
    left = at_most
    while left > 0:
        samples, after = pages.samples(query, after, min(step, left))
        yield from samples
        left -= len(samples)
        if after is None or not samples:
            return
