"""What becomes of a job when a worker is done with it. Pure."""

from dataclasses import dataclass
from typing import assert_never

from cloud.training.documents import JobState
from cloud.training.queue.settings import Training
from shared.plain_text import plain

WHY_MAX = 1000


@dataclass(frozen=True, slots=True)
class Done:
    """Its bundle is in the artifact store."""

    bundle: str
    """`name@version`."""
    bundle_sha256: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Broke:
    """It would fail again."""

    words: str


@dataclass(frozen=True, slots=True)
class GaveBack:
    """It may go on elsewhere, from its checkpoint."""

    words: str
    costs: bool
    """An attempt: it crashed, or its worker did. False: it was asked to stop, or what is not its own was
    away."""
    away: int = 0
    """How many times in a row its worker found a disk, a store or a registry away for it; it waits the
    longer. 0: nothing was."""


Ended = Done | Broke | GaveBack


def changes(
    ended: Ended,
    attempts: int,
    attempts_max: int,
    stop: str,
    asked_why: str,
    preemptions: int,
    rules: Training,
    now: float,
) -> dict[str, object]:
    """The row's columns. `stop`: what was asked of it, `asked_why`: in which words. What `ended` says is made
    plain: a job's process may have chosen some of it.

    A job that was to be cancelled and is done all the same is done.
    """
    free: dict[str, object] = {"owner": None, "stop": ""}
    said = plain(ended.words)
    match ended:
        case Done():
            return _over(JobState.DONE, said, now) | {
                "bundle": ended.bundle, "bundle_sha256": ended.bundle_sha256, "progress": 1.0,
            }  # fmt: skip
        case Broke():
            return _over(JobState.FAILED, said, now)
        case GaveBack() if stop == "cancel":
            return _over(JobState.CANCELLED, asked_why, now)
        case GaveBack(costs=False):
            pause_s = _pause_s(rules, ended.away) if ended.away else 0.0
            then = f"; tried again in {pause_s:g} s" if pause_s else ""
            back = free | {
                "state": "queued", "due_at": now + pause_s, "attempts": attempts - 1,
                "why": f"{said[: WHY_MAX - len(then)]}{then}",
            }  # fmt: skip
            if not ended.away:  # else the next one by name has its turn
                back["worker"] = ""
            if stop == "preempt":
                back |= {"since": now, "preempted_at": now, "preemptions": preemptions + 1}
            return back
        case GaveBack():
            if attempts >= attempts_max:
                words = f"{said}; given up after {attempts} of {attempts_max} attempts"
                return _over(JobState.FAILED, words, now)
            pause_s = _pause_s(rules, attempts)
            return free | {
                "state": "queued", "due_at": now + pause_s, "worker": "",
                "why": f"{said}; attempt {attempts + 1} of {attempts_max} follows"[:WHY_MAX],
            }  # fmt: skip
        case _:
            assert_never(ended)


def _pause_s(rules: Training, times: int) -> float:
    """After it did not go for the `times`-th time."""
    return min(rules.retry_s_max, rules.retry_s_min * 2.0 ** min(times - 1, 30))


def _over(state: JobState, why: str, now: float) -> dict[str, object]:
    return {
        "state": state.value, "owner": None, "stop": "", "ended_at": now, "due_at": now,
        "why": why[:WHY_MAX],
    }  # fmt: skip
