"""What the probe's child process runs: open, golden samples, latency beside the active model.

It steps back before it begins: lowest priority, and first to go when memory runs out.
"""

import json
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from shared.bundle.reader import Bundle, open_bundle
from shared.engines.apart import choose_apart
from shared.engines.engine import Session
from shared.engines.ranking import NoChoice, Verdict
from shared.errors import HybridgeError
from shared.parent_process import end_with_parent

_WARM_UPS = 3
_RUNS_MAX = 40
_MEASURE_S_MAX = 4.0


def main() -> None:
    """Read the question from stdin, write the answer to stdout; both are JSON."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a runtime prints must not get between
    asked = json.loads(sys.stdin.read())
    end_with_parent(int(asked["parent"]))  # one that hangs would outlive a killed agent for ever
    _step_back()
    try:
        answer = _probe(asked)
    except NoChoice as error:
        answer = {"refused": str(error)[:2000], "golden": golden_failed(error.verdicts)}
    except HybridgeError as error:
        answer = {"refused": str(error)[:2000]}
    with answers:
        json.dump(answer, answers)


def _probe(asked: dict[str, str]) -> dict[str, object]:
    cache_dir = Path(asked["cache_dir"])
    wanted = None if asked["engine"] == "auto" else asked["engine"]
    bundle = open_bundle(Path(asked["candidate"]))
    choice = choose_apart(bundle, wanted=wanted, cache_dir=cache_dir, batch_max=1)
    answer: dict[str, object] = {
        "variant": choice.variant.key,
        "others": {v.variant.key: v.reason[:2000] for v in choice.verdicts if not v.chosen},
    }
    active = _active(Path(asked["active"]), asked["active_variant"], cache_dir)
    if active is None:
        answer["latency_ms"], _ = _in_turn(bundle, choice.session, None)
    else:
        answer["latency_ms"], answer["active_ms"] = _in_turn(bundle, choice.session, active)
    return answer


def golden_failed(verdicts: Iterable[Verdict]) -> bool:
    """Whether a variant ran and answered the golden samples otherwise than it should."""
    return any(v.parity is not None and not v.parity.passes for v in verdicts)


def _active(path: Path, variant: str, cache_dir: Path) -> Session | None:
    """The model that answers now, once more; None where it does not open in here."""
    with suppress(HybridgeError):
        bundle = open_bundle(path)
        return choose_apart(bundle, wanted=variant, cache_dir=cache_dir, batch_max=1).session
    return None


def _in_turn(
    bundle: Bundle, candidate: Session, active: Session | None
) -> tuple[float, float | None]:
    """Median ms of single samples, one of each in turn: what else the machine does hits both."""
    inputs = bundle.golden.inputs
    ours: list[float] = []
    theirs: list[float] = []
    began = time.perf_counter()
    for run in range(_WARM_UPS + _RUNS_MAX):
        sample = inputs[run % len(inputs)][None]
        took = [_timed(session, sample) for session in (candidate, active) if session is not None]
        if run >= _WARM_UPS:
            ours.append(took[0])
            theirs.extend(took[1:])
            if time.perf_counter() - began > _MEASURE_S_MAX:
                break
    return median(ours), median(theirs) if theirs else None


def _timed(session: Session, sample: NDArray[np.generic]) -> float:
    start = time.perf_counter()
    session.run(sample)
    return (time.perf_counter() - start) * 1e3


def _step_back() -> None:
    with suppress(OSError):
        os.nice(10)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
