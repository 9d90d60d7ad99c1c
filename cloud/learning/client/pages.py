"""What the learning API answers that is no single document. Pure."""

from pydantic import BaseModel, ConfigDict

from cloud.feedback.documents import FeedbackSample
from cloud.training.documents import Job


class Page(BaseModel):
    """An older client meets a newer process: what it does not know it ignores."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class SamplePage(Page):
    samples: tuple[FeedbackSample, ...]
    next: str | None = None
    """`after` of the next page; None: this is the last."""


class LearningState(Page):
    """The process in figures."""

    name: str
    feedback_rows: int
    data_sets: int
    jobs: dict[str, int]
    """By state."""
    workers: int
    loops: int
    cycles_running: int
    asking: int
    """Cycles that wait for a person's go."""
    checks_failed: int


class CycleLine(Page):
    """What happened to a cycle, and when."""

    at: float
    words: str


class JobPage(Page):
    jobs: tuple[Job, ...]
    next: str | None = None
