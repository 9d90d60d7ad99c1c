"""From a bundle and what the settings ask for to a session that passed the golden samples."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from cloud.serving.padding import sizes_for
from cloud.serving.settings import ModelSettings, TritonSettings
from cloud.serving.triton_engine import TritonEngine
from shared.bundle.manifest import Precision
from shared.bundle.reader import Bundle
from shared.engines.engine import Absent, Available, Engine, OpenOptions, Session
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine, load_onnxruntime
from shared.engines.openvino_engine import OpenVinoEngine
from shared.engines.parity import check_graph, measure_parity
from shared.engines.ranking import choose
from shared.engines.tensorrt_engine import TensorRtEngine
from shared.errors import Unavailable

log = logging.getLogger(__name__)

_GPU_PROVIDERS = ("TENSORRT", "CUDA")


@dataclass(frozen=True, slots=True)
class Opened:
    session: Session
    engine: str
    variant: str  # "onnxruntime/int8"
    why: str
    size_max: int  # rows of one run
    sizes: tuple[int, ...] = ()  # the sizes that the engine likes; see `padding.parts`
    lanes: int = 1  # runs at once
    others: dict[str, str] = field(default_factory=dict)  # why not, by variant


def open_best(bundle: Bundle, settings: ModelSettings, *, cache_dir: Path, size_max: int) -> Opened:
    """The fastest variant that the settings allow and that passes; takes seconds.

    Raises `Unknown` for an engine that the bundle has no variant for, `Unavailable` when none can
    run here or none passes, saying why for each.
    """
    if settings.triton is not None:
        return _on_triton(bundle, settings.triton, size_max)
    engines = engines_for(settings)
    choice = choose(
        bundle, engines, wanted=None if settings.engine == "auto" else settings.engine,
        threads=settings.threads, cache_dir=cache_dir, batch_max=size_max,
    )  # fmt: skip
    engine = choice.variant.engine
    return Opened(
        session=choice.session, engine=engine, variant=choice.variant.key, why=choice.reason,
        size_max=size_max,
        sizes=sizes_for(engine, gpu=_on_gpu(engine, settings.device), size_max=size_max),
        others={v.variant.key: v.reason for v in choice.verdicts if not v.chosen},
    )  # fmt: skip


def engines_for(settings: ModelSettings) -> tuple[Engine, ...]:
    """The engines that run here, each with the device that was asked for."""
    device = settings.device
    match settings.engine:
        case "onnxruntime":
            return (BestProvider() if device == "auto" else OnnxRuntimeEngine((device,)),)
        case "openvino":
            return (OpenVinoEngine("CPU" if device == "auto" else device),)
        case "tensorrt":
            return (TensorRtEngine(),)
        case _:
            return BestProvider(), OpenVinoEngine(), TensorRtEngine()


def _on_triton(bundle: Bundle, settings: TritonSettings, size_max: int) -> Opened:
    manifest = bundle.manifest
    names = tuple(output.name for output in manifest.outputs)
    engine = TritonEngine(settings, manifest.name, names)
    session = engine.open(b"", OpenOptions(where=manifest.name, batch_max=size_max))
    try:
        check_graph(manifest, session, f"{manifest.name} on {settings.url}")
        precision = _passed_as(bundle, session)
    except BaseException:
        session.close()
        raise
    return Opened(
        session=session, engine="triton", variant=f"triton/{precision}",
        why=f"asked for, and passes the golden samples as {precision} at {settings.url}",
        size_max=session.batch_max, lanes=settings.concurrency,
    )  # fmt: skip


def _passed_as(bundle: Bundle, session: Session) -> Precision:
    """Which precision runs there only its answers say: the strictest whose tolerance they keep.

    Raises `Unavailable` when they keep none.
    """
    golden = bundle.manifest.golden
    stated = {variant.precision for variant in bundle.manifest.variants}
    parity = None
    for precision in sorted(stated, key=lambda each: golden.tolerance[each]):
        parity = measure_parity(session, bundle.golden, golden, precision)
        if parity.passes:
            return precision
    raise Unavailable(
        f"{bundle.where}: the server answers otherwise than the reference: {parity}; load this "
        "bundle's model there"
    )


class BestProvider:
    """onnxruntime on the GPU where its wheel has a provider that starts, else on the CPU.

    TensorRT's provider compiles for minutes: it is taken only when asked for by name.
    """

    name = "onnxruntime"

    def __init__(self, load: Callable[[], ModuleType] = load_onnxruntime) -> None:
        self._load = load

    def probe(self) -> Available | Absent:
        return OnnxRuntimeEngine(load=self._load).probe()

    def open(self, artifact: bytes, options: OpenOptions) -> Session:
        found = self.probe()
        if isinstance(found, Available) and "CUDA" in found.devices:
            try:
                return OnnxRuntimeEngine(("CUDA",), self._load).open(artifact, options)
            except Unavailable as error:
                log.warning("provider_did_not_start", extra={"why": str(error)})
        return OnnxRuntimeEngine(load=self._load).open(artifact, options)


def _on_gpu(engine: str, device: str) -> bool:
    match engine:
        case "onnxruntime":
            return device in _GPU_PROVIDERS or (device == "auto" and _has_provider("CUDA"))
        case "openvino":
            return device not in ("auto", "CPU")
        case _:
            return True


def _has_provider(name: str) -> bool:
    found = OnnxRuntimeEngine().probe()
    return isinstance(found, Available) and name in found.devices
