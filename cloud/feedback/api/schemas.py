"""The documents of the API beside those of the store: what is asked, and lists of what is given."""

from typing import Annotated

from pydantic import Field

from cloud.document import Document
from cloud.feedback.documents import Comment, FeedbackSample, ListedDataSet


class SampleList(Document):
    samples: tuple[FeedbackSample, ...]
    next: str | None
    """`after` of the next page; None: this is the last."""


class LabelRequest(Document):
    label: Annotated[int, Field(ge=0, le=65_535)]
    """A class of the sample's model, from 0."""
    comment: Comment = ""


class DataSets(Document):
    data_sets: tuple[ListedDataSet, ...]
    """By name and number."""
