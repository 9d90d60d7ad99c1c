"""What this machine can run, and what it would run of a given bundle: the report, as values."""

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from shared import __version__
from shared.bundle.reader import open_bundle
from shared.engines.engine import Absent, Engine
from shared.engines.known import known_engines
from shared.engines.ranking import NoChoice, Verdict, choose
from shared.errors import HybridgeError


@dataclass(frozen=True, slots=True)
class EngineFinding:
    name: str
    available: bool
    version: str
    devices: tuple[str, ...]
    reason: str  # why it cannot run; "" when it can


@dataclass(frozen=True, slots=True)
class VariantFinding:
    variant: str  # "onnxruntime/int8"
    chosen: bool
    reason: str
    latency_ms: float | None
    difference_max: float | None
    agreement: float | None


@dataclass(frozen=True, slots=True)
class BundleFinding:
    where: str
    model: str  # "name version"; "" when the bundle could not be read
    chosen: str  # "" when nothing can run
    reason: str  # why that one, or what is wrong
    variants: tuple[VariantFinding, ...]


@dataclass(frozen=True, slots=True)
class Report:
    hybridge: str
    python: str
    machine: str
    engines: tuple[EngineFinding, ...]
    bundle: BundleFinding | None  # None when none was asked about

    @property
    def healthy(self) -> bool:
        """Something can run: of the bundle, when one was asked about."""
        if self.bundle is not None:
            return bool(self.bundle.chosen)
        return any(engine.available for engine in self.engines)


def report(
    bundle: Path | None = None,
    *,
    engine: str | None = None,
    engines: Sequence[Engine] | None = None,
) -> Report:
    """Probe the engines and, given a bundle, rank its variants. Raises nothing of its own.

    `engine` names the one to use ("openvino" or "openvino/int8"), as `--engine` does.
    """
    looked_at = known_engines() if engines is None else tuple(engines)
    return Report(
        hybridge=__version__,
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        engines=tuple(_probe(one) for one in looked_at),
        bundle=None if bundle is None else _rank(bundle, looked_at, engine),
    )


def render(report: Report) -> str:
    """Plain text for a terminal or a log; ends without a newline."""
    lines = [
        f"Hybridge {report.hybridge}, Python {report.python}, {report.machine}",
        "",
        "Engines",
    ]
    for engine in report.engines:
        said = (
            f"{engine.version} on {', '.join(engine.devices)}"
            if engine.available
            else f"cannot run: {engine.reason}"
        )
        lines.append(f"  {_mark(good=engine.available)} {engine.name:<12} {said}")
    if report.bundle is not None:
        lines += ["", f"Bundle {report.bundle.where}"]
        if report.bundle.model:
            lines.append(f"  model        {report.bundle.model}")
        lines.append(f"  chosen       {report.bundle.chosen or 'nothing'}: {report.bundle.reason}")
        for variant in report.bundle.variants:
            lines.append(f"  {_mark(good=variant.chosen)} {variant.variant:<20} {variant.reason}")
    return "\n".join(lines)


def as_json(report: Report) -> str:
    """The same as JSON, with `healthy`."""
    return json.dumps({**asdict(report), "healthy": report.healthy}, indent=2)


def _mark(*, good: bool) -> str:
    return "+" if good else "-"


def _probe(engine: Engine) -> EngineFinding:
    found = engine.probe()
    if isinstance(found, Absent):
        return EngineFinding(
            engine.name, available=False, version="", devices=(), reason=found.reason
        )
    return EngineFinding(
        engine.name, available=True, version=found.version, devices=found.devices, reason=""
    )


def _rank(path: Path, engines: Sequence[Engine], wanted: str | None) -> BundleFinding:
    model = ""
    try:
        bundle = open_bundle(path)
        model = f"{bundle.manifest.name} {bundle.manifest.version}"
        choice = choose(bundle, engines, wanted=wanted)
    except NoChoice as error:
        return _finding(path, model, "", str(error), error.verdicts)
    except HybridgeError as error:
        return _finding(path, model, "", str(error), ())
    choice.session.close()
    return _finding(path, model, choice.variant.key, choice.reason, choice.verdicts)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON has no infinity


def _finding(
    path: Path, model: str, chosen: str, reason: str, verdicts: tuple[Verdict, ...]
) -> BundleFinding:
    return BundleFinding(
        where=str(path),
        model=model,
        chosen=chosen,
        reason=reason,
        variants=tuple(
            VariantFinding(
                variant=verdict.variant.key,
                chosen=verdict.chosen,
                reason=verdict.reason,
                latency_ms=verdict.latency_ms,
                difference_max=_finite(verdict.parity.difference_max) if verdict.parity else None,
                agreement=verdict.parity.agreement if verdict.parity else None,
            )
            for verdict in verdicts
        ),
    )
