"""What the API of the learning process stands on."""

from collections.abc import Callable
from dataclasses import dataclass

from cloud.feedback.store import FeedbackStore
from cloud.learning.feature_checking import FeatureChecking
from cloud.learning.loop.desk import LoopDesk
from cloud.learning.metrics import LearningMetrics
from cloud.learning.refitting import Refitting
from cloud.registry.artifacts.blobs import Blobs
from cloud.training.queue.queue import JobQueue
from cloud.training.tracking.tracking import Tracking


@dataclass(frozen=True, slots=True)
class Parts:
    name: str
    feedback: FeedbackStore
    blobs: Blobs
    queue: JobQueue
    tracking: Tracking
    desk: LoopDesk
    refitting: Refitting
    checking: FeatureChecking
    metrics: LearningMetrics
    data_set_reader: Callable[[str], str]
    """By the file's hash: who has yet to read it, in words."""
    now: Callable[[], float]
    """Unix seconds."""
