"""The documents of the API beside those of its parts: what is asked, and lists of what is given."""

from typing import Annotated

from pydantic import StringConstraints

from cloud.document import Document
from cloud.learning.documents import Cycle, FeatureCheck, Loop
from cloud.training.documents import JobState
from shared.plain_text import PLAIN

Comment = Annotated[str, StringConstraints(max_length=500, pattern=PLAIN)]


class Nothing(Document):
    """A body without members, or none."""


class Healthy(Document):
    live: bool


class LearningState(Document):
    name: str
    feedback_rows: int
    data_sets: int
    jobs: dict[JobState, int]
    workers: int
    loops: int
    cycles_running: int
    asking: int
    """Cycles that wait for a person's go."""
    checks_failed: int
    """Models whose newest feature check found a difference."""


class Loops(Document):
    loops: tuple[Loop, ...]


class Cycles(Document):
    cycles: tuple[Cycle, ...]


class CycleLine(Document):
    at: float
    words: str


class CycleLog(Document):
    lines: tuple[CycleLine, ...]


class CommentRequest(Document):
    comment: Comment = ""


class Checks(Document):
    checks: tuple[FeatureCheck, ...]
