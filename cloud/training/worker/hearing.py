"""What a job's process says, as it is kept: in notes for the next beat, its checkpoints in the store."""

from collections.abc import Callable
from typing import assert_never

from cloud.training.child_messages import (
    Checkpointed,
    Failed,
    Made,
    Measured,
    Message,
    Said,
    Started,
    Stopped,
)
from cloud.training.documents import Run
from cloud.training.store.claim_rows import Claimed
from cloud.training.worker.notes import Notes
from cloud.training.worker.sharing import Sharing


class Hearing:
    """Of one job."""

    def __init__(
        self, job: Claimed, sharing: Sharing, now: Callable[[], float], code_version: str
    ) -> None:
        """`now` gives Unix seconds."""
        self._job, self._sharing, self._now, self._code_version = job, sharing, now, code_version
        self.notes = Notes()
        self.progress = 0.0

    def take(self, message: Message) -> None:
        match message:
            case Started():
                resumed = message.resumed_step
                self.notes.run = Run(
                    id=self._job.id, parameters=message.parameters,
                    data_set=self._job.spec.data_set, code_version=self._code_version,
                    machine=message.machine[:500], started_at=self._now(),
                )  # fmt: skip
                self.said("it begins" if resumed is None else f"it goes on from step {resumed}")
            case Measured():
                self.progress = message.progress
                self.notes.measured(message.step, message.values, self._now())
            case Said():
                self.said(message.text)
            case Checkpointed():
                self._sharing.written(message.path)
            case Made():
                self.notes.figures.update(message.figures)
            case Stopped() | Failed():
                pass
            case _:
                assert_never(message)

    def said(self, text: str) -> None:
        """To people."""
        self.notes.said(text, self._now())
