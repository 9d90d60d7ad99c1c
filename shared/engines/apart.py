"""Rank in a child process, so that the engines that lose leave nothing behind in this one.

An imported runtime never gives its memory back: ranking an openvino variant beside an onnxruntime
one leaves 123 MB resident where onnxruntime alone has 73. A device keeps only the winner.
"""

import os
import pickle  # between this program and a child that it started itself
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from shared.bundle.reader import Bundle, open_bundle
from shared.engines.engine import Engine
from shared.engines.known import known_engines
from shared.engines.ranking import Choice, NoChoice, Verdict, choose
from shared.errors import HybridgeError, Unavailable
from shared.parent_process import end_with_parent

_PROGRAM = "from shared.engines.apart import rank_for_parent; rank_for_parent()"
_RANK_S_MAX = 900.0  # TensorRT compiles for minutes, once


def choose_apart(
    bundle: Bundle,
    *,
    wanted: str | None = None,
    threads: int = 1,
    cache_dir: Path | None = None,
    batch_max: int = 32,
) -> Choice:
    """`choose` over the known engines, with only the winner's runtime loaded in this process.

    A bundle for one engine, or one asked for by name, is ranked right here: there is nothing to
    keep out. Otherwise it takes a second more than `choose`. Raises what `choose` raises, and
    `Unavailable` when a runtime takes the child down.
    """
    contenders = {
        variant.engine
        for variant in bundle.manifest.variants
        if wanted in (None, variant.engine, variant.key)
    }
    engines = known_engines()
    if len(contenders) <= 1:
        return choose(
            bundle,
            engines,
            wanted=wanted,
            threads=threads,
            cache_dir=cache_dir,
            batch_max=batch_max,
        )
    verdicts = _ranked_in_child(Path(bundle.where), threads, cache_dir, batch_max)
    winner = next((verdict for verdict in verdicts if verdict.chosen), None)
    if winner is None:
        why = "; ".join(f"{verdict.variant.key}: {verdict.reason}" for verdict in verdicts)
        raise NoChoice(f"{bundle.where}: no variant can run here: {why}", verdicts)
    return _opened_here(bundle, engines, winner, verdicts, threads, cache_dir, batch_max)


def _opened_here(
    bundle: Bundle,
    engines: tuple[Engine, ...],
    winner: Verdict,
    verdicts: tuple[Verdict, ...],
    threads: int,
    cache_dir: Path | None,
    batch_max: int,
) -> Choice:
    """The winner once more, in this process: its golden samples are checked where it will run."""
    choice = choose(
        bundle,
        engines,
        wanted=winner.variant.key,
        threads=threads,
        cache_dir=cache_dir,
        batch_max=batch_max,
    )
    here = next(verdict for verdict in choice.verdicts if verdict.chosen)
    merged = tuple(
        replace(here, reason=winner.reason) if verdict.chosen else verdict for verdict in verdicts
    )
    return replace(choice, reason=winner.reason, verdicts=merged)


def _ranked_in_child(
    path: Path, threads: int, cache_dir: Path | None, batch_max: int
) -> tuple[Verdict, ...]:
    """A plain child: multiprocessing would leave its tracker running beside the agent."""
    try:
        ran = subprocess.run(  # noqa: S603 - this interpreter, a program of ours
            [sys.executable, "-c", _PROGRAM],
            input=pickle.dumps((os.getpid(), path, threads, cache_dir, batch_max)),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
            capture_output=True,
            timeout=_RANK_S_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(
            f"{path}: trying its variants failed ({error}); name an engine to use only that one"
        ) from error
    answer = pickle.loads(ran.stdout)  # noqa: S301 - our own child wrote it
    if isinstance(answer, HybridgeError):
        raise answer
    return tuple(answer)


def rank_for_parent() -> None:
    """What the child runs: arguments from stdin, verdicts (or a refusal) to stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a runtime prints must not get between
    parent, *asked = pickle.load(sys.stdin.buffer)  # noqa: S301 - our parent
    end_with_parent(parent)
    path, threads, cache_dir, batch_max = asked
    answer: tuple[Verdict, ...] | HybridgeError
    try:
        choice = choose(
            open_bundle(path),
            known_engines(),
            threads=threads,
            cache_dir=cache_dir,
            batch_max=batch_max,
        )
        answer = choice.verdicts
    except NoChoice as error:
        answer = error.verdicts
    except HybridgeError as error:
        answer = error
    with answers:
        pickle.dump(answer, answers)
