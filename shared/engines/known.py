"""The engines that this program knows, in the order in which people list them."""

from shared.engines.engine import Engine
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.engines.openvino_engine import OpenVinoEngine
from shared.engines.tensorrt_engine import TensorRtEngine


def known_engines() -> tuple[Engine, ...]:
    """One of each, with its usual device; nothing heavy is imported before it is probed."""
    return OnnxRuntimeEngine(), OpenVinoEngine(), TensorRtEngine()
