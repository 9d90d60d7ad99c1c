"""A model that is cut in two: a backbone, whose features several heads take, and a head.

A head's request carries the backbone's input. Its features come from the feature cache, else from
the backbone's batcher, and go to the head's batcher; one deadline is for both.
"""

from collections.abc import Callable

from cloud.serving.awaited import Awaited
from cloud.serving.backbone import Backbone, Queue, Wish
from cloud.serving.job import Floats, Job, Priority, Ran, Rows
from shared.bundle.manifest import Manifest
from shared.errors import Malformed


def check_fits(head: Manifest, backbone: Manifest) -> None:
    """Raises `Malformed` unless `backbone` makes what `head` takes."""
    named = head.backbone
    if named is None or (named.name, named.version) != (backbone.name, backbone.version):
        says = "no backbone" if named is None else f"{named.name} {named.version}"
        raise Malformed(
            f"{head.name} {head.version} names {says}, not {backbone.name} {backbone.version}"
        )
    if backbone.task != "embed" or backbone.outputs[0].shape != head.inputs[0].shape:
        gives = f"{backbone.task}: {backbone.outputs[0].dtype}{list(backbone.outputs[0].shape)}"
        raise Malformed(
            f"{head.name} {head.version} takes float32{list(head.inputs[0].shape)}; its backbone "
            f"{backbone.name} {backbone.version} gives {gives}; rebuild one of them"
        )


class Split:
    """A head behind its backbone: to whoever asks it is a batcher of whole requests."""

    def __init__(
        self, backbone: Backbone, head: Queue, head_cost_s: Callable[[int], float]
    ) -> None:
        """`head_cost_s(rows)`: what the head's curve expects; the backbone must leave that much."""
        self._backbone, self._head, self._head_cost_s = backbone, head, head_cost_s

    def submit(self, job: Job) -> None:
        """As `Batcher.submit`. What cannot pass both models in time is refused at once."""
        key, features = self._backbone.known(job.rows)
        if features is None:
            needed_by = job.deadline - self._head_cost_s(len(job.rows))
            self._backbone.ask(_Headless(job, needed_by, self._head), key)
        else:
            self._head.submit(_Headed(job, features, 0.0, 0.0))

    async def infer(
        self, rows: Rows, deadline: float, priority: Priority = Priority.INTERACTIVE
    ) -> Ran:
        """As `Batcher.infer`."""
        job = Awaited(rows, deadline, priority)
        self.submit(job)
        return await job.done


class _Headless(Wish):
    """The first half of a request."""

    __slots__ = ("head",)

    def __init__(self, job: Job, needed_by: float, head: Queue) -> None:
        super().__init__(job, needed_by)
        self.head = head

    def featured(self, features: Floats, queue_s: float, run_s: float) -> None:
        try:
            self.head.submit(_Headed(self.job, features, queue_s, run_s))
        except Exception as error:  # noqa: BLE001  it was accepted, so it is told
            self.job.failed(error)


class _Headed(Job):
    """The second half; times are those of the first."""

    __slots__ = ("asked", "queue_s", "run_s")

    def __init__(self, asked: Job, features: Floats, queue_s: float, run_s: float) -> None:
        super().__init__(features, asked.deadline, asked.priority)
        self.asked, self.queue_s, self.run_s = asked, queue_s, run_s

    @property
    def gone(self) -> bool:
        return self.asked.gone

    def answered(self, ran: Ran) -> None:
        queue_s, run_s = self.queue_s + ran.queue_s, self.run_s + ran.run_s
        self.asked.answered(Ran(ran.outputs, queue_s, run_s))

    def failed(self, error: Exception) -> None:
        self.asked.failed(error)
