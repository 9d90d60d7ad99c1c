"""Why a job's process was ended or ended itself, as the queue keeps it. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, assert_never

from cloud.training.child_messages import Failed
from cloud.training.documents import JobSpec
from cloud.training.queue.ending import Broke, Ended, GaveBack
from cloud.training.worker.settings import TrainWorker

_OUR_OWN: Final = frozenset({"away", "no_room"})
"""Reasons of `Failed` that are this machine's and not the job's: elsewhere, or later, it may do."""
Bound = Literal["time", "disk"]
"""That its process is over."""
Request = Literal["cancel", "preempt", "shutdown", "lost"]
"""Of others."""
Stop = Bound | Request
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cancel": "was cancelled",
        "preempt": "gave its place",
        "shutdown": "its worker was told to end",
        "lost": "it is another worker's",
    }
)


def stopped_as(how: Stop, spec: JobSpec, settings: TrainWorker) -> Ended:
    match how:
        case "time":
            return Broke(
                f"it worked for longer than its max_duration_s of {spec.max_duration_s:g}; submit it with "
                "more time, or with less to do"
            )
        case "disk":
            most = settings.folder_bytes_max // 2**20
            return Broke(f"its folder grew over {most} MiB (worker.folder_bytes_max)")
        case "cancel" | "preempt" | "shutdown" | "lost":
            return GaveBack(_WORDS[how], costs=False)
        case _:
            assert_never(how)


def failed_as(failed: Failed) -> Ended:
    at = "" if failed.step is None else f" at step {failed.step}"
    words = f"{failed.reason}{at}: {failed.words}"
    return GaveBack(words, costs=True) if failed.reason in _OUR_OWN else Broke(words)
