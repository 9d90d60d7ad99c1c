"""Refusals, written once for all who are told the same.

Under overload most answers are one of a few hundred refusals (a wait of so many ms), and each would
cost half of what an answer does.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import Counter

from cloud.api.problems import Problem, problem_of
from shared.errors import HybridgeError, Unavailable
from shared.logs import OncePer

log = logging.getLogger(__name__)

_LOG_PERIOD_S = 60.0
_KEPT_MAX = 512

Written = tuple[bytes, tuple[bytes, ...]]
"""An HTTP head, without the fields that every answer has, and a body in pieces."""


@dataclass(frozen=True, slots=True)
class _Kept:
    problem: Problem
    counter: Counter
    head: bytes  # up to the value of Content-Length
    before_instance: bytes
    kind: str


class Refusals:
    def __init__(self, counter_of: Callable[[Problem], Counter]) -> None:
        self._counter_of = counter_of
        self._kept: dict[tuple[type[Exception], str, float | None], _Kept] = {}
        self._once = OncePer(_LOG_PERIOD_S)

    def write(self, error: Exception, request_id: str, now: float) -> Written:
        """Counted, and once a minute for each kind in the log."""
        if isinstance(error, Unavailable):  # what does not depend on what a caller sent
            key = type(error), str(error), error.retry_after_s
            kept = self._kept.get(key)
            if kept is None:
                if len(self._kept) >= _KEPT_MAX:
                    self._kept.clear()
                kept = self._kept[key] = self._made(error)
        else:
            kept = self._made(error)
            if not isinstance(error, HybridgeError):
                log.error("request_failed", extra={"request_id": request_id}, exc_info=error)
        kept.counter.inc()
        if (held_back := self._once.admits(kept.kind, now)) is not None:
            problem = kept.problem
            log.warning(
                "request_refused",
                extra={
                    "status": problem.status.value, "kind": problem.kind, "request_id": request_id,
                    "why": problem.detail[:300], "more_since_last": held_back,
                },
            )  # fmt: skip
        instance = json.dumps(request_id).encode()
        length = len(kept.before_instance) + len(instance) + 1
        return b"%b%d\r\n" % (kept.head, length), (kept.before_instance, instance, b"}")

    def _made(self, error: Exception) -> _Kept:
        problem = problem_of(error)
        fields = "".join(f"{name}: {text}\r\n" for name, text in problem.headers.items())
        head = (
            f"HTTP/1.1 {problem.status.value} {problem.status.phrase}\r\n{fields}Content-Length: "
        )
        kind = f"{problem.status.value} {problem.kind}"
        return _Kept(
            problem,
            self._counter_of(problem),
            head.encode(),
            problem.for_callers.before_instance,
            kind,
        )
