"""The documents of training's API beside those of jobs: what is asked, and lists of what is given."""

from typing import Annotated

from pydantic import Field, StringConstraints

from cloud.document import Document
from cloud.training.documents import Job, JobId, LogLine, Point, Quota, WorkerState
from shared.plain_text import PLAIN

Comment = Annotated[str, StringConstraints(max_length=500, pattern=PLAIN)]


class Jobs(Document):
    """The newest first."""

    jobs: tuple[Job, ...]
    next: JobId | None
    """`after` of the next page; None: this is the last."""


class CommentRequest(Document):
    comment: Comment = ""


class PriorityRequest(Document):
    priority: Annotated[int, Field(ge=0, le=9)]


class LogLines(Document):
    lines: tuple[LogLine, ...]


class Points(Document):
    points: tuple[Point, ...]


class Workers(Document):
    workers: tuple[WorkerState, ...]


class Quotas(Document):
    quotas: tuple[Quota, ...]
