"""The documents of the API beside those of the store: what is asked, and lists of what is given."""

from typing import Annotated

from pydantic import Field

from cloud.document import Document
from cloud.feedback.documents import Comment, FeedbackSample, ListedDataSet


class SampleList(Document):
    samples: tuple[FeedbackSample, ...]
    next: str | None
    """`after` of the next page; None: this is the last."""


class Accuracy(Document):
    """Of the edge's or the cloud's answers, by what people labelled; shares 0..1."""

    estimate: float
    low: float
    """With `high`: the 95% interval."""
    high: float
    labelled: int
    """Samples, by people who agree."""
    audits: int
    """Of the labelled ones those that were sent with a share below 1."""
    sent: int
    """Samples in the store."""


class LabelRequest(Document):
    label: Annotated[int, Field(ge=0, le=65_535)]
    """A class of the sample's model, from 0."""
    comment: Comment = ""


class DataSets(Document):
    data_sets: tuple[ListedDataSet, ...]
    """By name and number."""
