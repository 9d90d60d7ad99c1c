"""Which of a bundle's variants to run on this machine: measured here, never assumed.

int8 pays only above some model size, and which engine is fastest depends on both model and machine
(FINDINGS 10). So each variant that can run is opened, held against the golden samples, and timed
at batch 1; the fastest that passes wins, and every other one says why not.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from shared.bundle.manifest import Variant
from shared.bundle.reader import Bundle
from shared.engines.engine import Absent, Available, Engine, OpenOptions, Session
from shared.engines.parity import Parity, check_graph, measure_parity
from shared.engines.runtime_versions import missing_runtime
from shared.errors import HybridgeError, Unavailable, Unknown

_WARM_UPS = 5
_RUNS_MIN = 3
_RUNS_MAX = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one variant."""

    variant: Variant
    chosen: bool
    reason: str  # why it was chosen, or why not
    latency_ms: float | None = None  # median, batch 1; None when it was not timed
    parity: Parity | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The variant to run, opened, and the verdict on each variant in the manifest's order."""

    variant: Variant
    session: Session
    reason: str
    verdicts: tuple[Verdict, ...]


class NoChoice(Unavailable):
    """No variant can run here; `verdicts` say why, each for its own."""

    def __init__(self, message: str, verdicts: tuple[Verdict, ...]) -> None:
        super().__init__(message)
        self.verdicts = verdicts


@dataclass(slots=True)
class _Candidate:
    variant: Variant
    reason: str = ""
    session: Session | None = None
    latency_ms: float | None = None
    parity: Parity | None = None


def choose(
    bundle: Bundle,
    engines: Sequence[Engine],
    *,
    wanted: str | None = None,
    threads: int = 1,
    cache_dir: Path | None = None,
    batch_max: int = 32,
    measure_s_max: float = 2.0,
    now: Callable[[], float] = time.perf_counter,
) -> Choice:
    """Open, check and time the variants; return the fastest that passes, opened.

    `wanted` is an engine ("openvino") or one variant ("openvino/int8"): nothing else is tried.
    `measure_s_max` bounds the timing of all variants together (opening them comes on top).
    Raises `Unknown` for a `wanted` that the bundle does not have, `NoChoice` when none can run.
    """
    manifest = bundle.manifest
    if wanted is not None and not any(_is(variant, wanted) for variant in manifest.variants):
        keys = ", ".join(variant.key for variant in manifest.variants)
        raise Unknown(
            f"{bundle.where}: has no variant for {wanted!r}; it has {keys}: name one of them, or none"
        )
    probed = _Probed(engines)
    budget_s = measure_s_max / len(manifest.variants)
    candidates = [_Candidate(variant) for variant in manifest.variants]
    try:
        for candidate in candidates:
            candidate.reason = _why_not(candidate.variant, wanted, probed)
            if not candidate.reason:
                options = OpenOptions(
                    where=f"{candidate.variant.file.path} ({candidate.variant.key})",
                    threads=threads,
                    cache_dir=cache_dir,
                    batch_max=batch_max,
                )
                engine = probed.engine(candidate.variant.engine)
                _try(candidate, bundle, engine, options, budget_s, now)
    except BaseException:
        _close(candidates, keep=None)
        raise
    passed = [c for c in candidates if c.session is not None and not c.reason]
    best = min(passed, key=lambda c: c.latency_ms or 0.0, default=None)
    _close(candidates, keep=best)
    if best is None or best.session is None:
        raise _no_choice(bundle, candidates, wanted)
    reason = _reason(best, passed, wanted)
    return Choice(
        variant=best.variant,
        session=best.session,
        reason=reason,
        verdicts=tuple(_verdict(c, best, reason) for c in candidates),
    )


def _is(variant: Variant, wanted: str) -> bool:
    return wanted in (variant.engine, variant.key)


class _Probed:
    """Probes an engine when a variant first needs it: probing imports it, which costs memory."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = {engine.name: engine for engine in engines}
        self._found: dict[str, Available | Absent] = {}

    def engine(self, name: str) -> Engine:
        return self._engines[name]

    def look(self, name: str) -> Available | Absent:
        if name not in self._engines:
            return Absent(f"this program was not given the engine {name}")
        if name not in self._found:
            self._found[name] = self._engines[name].probe()
        return self._found[name]


def _why_not(variant: Variant, wanted: str | None, probed: _Probed) -> str:
    if wanted is not None and not _is(variant, wanted):
        return f"not asked for: only {wanted} was"
    found = probed.look(variant.engine)
    if isinstance(found, Absent):
        return found.reason
    return missing_runtime(variant.runtime) or ""


def _try(
    candidate: _Candidate,
    bundle: Bundle,
    engine: Engine,
    options: OpenOptions,
    budget_s: float,
    now: Callable[[], float],
) -> None:
    manifest = bundle.manifest
    try:
        session = engine.open(bundle.read(candidate.variant.file), options)
        candidate.session = session
        check_graph(manifest, session, options.where)
        candidate.parity = measure_parity(
            session,
            bundle.golden,
            manifest.golden,
            candidate.variant.precision,
            options.batch_max,
        )
        if candidate.parity.passes:
            candidate.latency_ms = _time(session, bundle, budget_s, now)
        else:
            candidate.reason = f"answers differ from the reference: {candidate.parity}"
    except HybridgeError as error:
        candidate.reason = str(error)


def _time(session: Session, bundle: Bundle, budget_s: float, now: Callable[[], float]) -> float:
    inputs = bundle.golden.inputs
    began = now()
    taken: list[float] = []
    for run in range(_WARM_UPS + _RUNS_MAX):
        sample = inputs[run % len(inputs)][None]
        start = now()
        session.run(sample)
        end = now()
        taken.append(end - start)
        if len(taken) >= _RUNS_MIN and end - began > budget_s:
            break
    steady = taken[_WARM_UPS:] if len(taken) >= _WARM_UPS + _RUNS_MIN else taken[-_RUNS_MIN:]
    return median(steady) * 1e3


def _close(candidates: list[_Candidate], keep: _Candidate | None) -> None:
    for candidate in candidates:
        if candidate.session is not None and candidate is not keep:
            candidate.session.close()


def _reason(best: _Candidate, passed: list[_Candidate], wanted: str | None) -> str:
    latency = f"{best.latency_ms:.3f} ms at batch 1"
    if len(passed) > 1:
        return f"fastest of {len(passed)} that pass the golden samples: {latency}"
    asked = f"asked for as {wanted}, and" if wanted else "the only one that"
    return f"{asked} passes the golden samples: {latency}"


def _verdict(candidate: _Candidate, best: _Candidate | None, reason: str) -> Verdict:
    chosen = candidate is best
    why_not = candidate.reason or f"slower: {candidate.latency_ms:.3f} ms at batch 1"
    return Verdict(
        variant=candidate.variant,
        chosen=chosen,
        reason=reason if chosen else why_not,
        latency_ms=candidate.latency_ms,
        parity=candidate.parity,
    )


def _no_choice(bundle: Bundle, candidates: list[_Candidate], wanted: str | None) -> NoChoice:
    verdicts = tuple(_verdict(candidate, None, "") for candidate in candidates)
    tried = [v for v in verdicts if wanted is None or _is(v.variant, wanted)]
    why = "; ".join(f"{verdict.variant.key}: {verdict.reason}" for verdict in tried)
    return NoChoice(f"{bundle.where}: no variant can run here: {why}", verdicts)
