"""Workers that start, answer and leave, second by second. Pure.

The queue model: the ready workers share the load evenly, and each answers up to its QPS at the SLA
within the SLA. What is above may wait for as long as the SLA is; the rest is over it. (Admission by
deadline, as in `cloud.serving`: what cannot be in time is refused at once, so that nothing piles
up. A server without it would be late for longer.)
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Machine:
    """What a worker is. `qps_max`: what it answers with its CPU fully used, however late."""

    qps_at_sla: float
    qps_max: float
    sla_s: float = 0.05
    start_s: float = 60.0
    """From wanted to ready: a node is found, the image starts, models load and warm up."""


@dataclass(slots=True)
class Worker:
    ready_at: float
    answered: float = 0.0
    first_answer_at: float | None = None


@dataclass(frozen=True, slots=True)
class Second:
    """What happened in one. `over`: requests that were late or refused."""

    asked: float
    over: float
    utilisation: float
    """Share of the ready workers' CPU that was used."""


@dataclass(slots=True)
class Fleet:
    """`workers` hold the oldest first; those that are wanted no more leave from the end."""

    machine: Machine
    workers: list[Worker]
    gone: list[Worker] = field(default_factory=list)
    worker_s: float = 0.0
    _waiting: float = 0.0

    def ready(self, now_s: float) -> int:
        return sum(worker.ready_at <= now_s for worker in self.workers)

    def want(self, number: int, now_s: float) -> None:
        """Start or end workers; those that are not ready yet end first, being the newest."""
        while len(self.workers) < number:
            self.workers.append(Worker(now_s + self.machine.start_s))
        while len(self.workers) > number:
            self.gone.append(self.workers.pop())

    def second(self, now_s: float, asked: float) -> Second:
        """Let one second pass in which `asked` requests arrive."""
        machine = self.machine
        ready = [worker for worker in self.workers if worker.ready_at <= now_s]
        self.worker_s += len(self.workers)
        capacity = len(ready) * machine.qps_at_sla
        answered = min(capacity, self._waiting + asked)
        left = self._waiting + asked - answered
        self._waiting = min(left, capacity * machine.sla_s)
        for worker in ready:
            worker.answered += answered / len(ready)
            if worker.first_answer_at is None and answered:
                worker.first_answer_at = now_s
        # a server that is full turns the rest away, and its CPU is full as well
        busy = min(1.0, (answered + left) / (len(ready) * machine.qps_max)) if ready else 0.0
        return Second(asked, left - self._waiting, busy)
