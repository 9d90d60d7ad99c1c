"""From a fitted network to ONNX, and from ONNX to int8.

Sources: FINDINGS 10 (u8 activations, s8 weights, per channel, min-max is fastest and loses
least); ONNX Runtime, "Quantize ONNX models", static quantization in QDQ form.
"""

import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, numpy_helper
from torch import nn

from shared.engines.onnxruntime_engine import load_onnxruntime
from shared.errors import Malformed

load_onnxruntime()  # with its telemetry off, before anything below imports it
from onnxruntime.quantization import (  # noqa: E402
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: E402
from onnxruntime.transformers.float16 import (  # noqa: E402
    DEFAULT_OP_BLOCK_LIST,
    convert_float_to_float16,
)
from onnxruntime.transformers.onnx_model import OnnxModel  # noqa: E402

INPUT, OUTPUT = "image", "logits"
_BATCH_MAX = 4096


def to_onnx(model: nn.Module, example: NDArray[np.uint8]) -> ModelProto:
    """Export with a free batch axis; `example` is uint8 [2 or more, H, W]."""
    batch = torch.export.Dim("batch", min=1, max=_BATCH_MAX)
    model = model.to(memory_format=torch.contiguous_format).eval()  # type: ignore[call-overload]  # torch's stub lacks it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns about its own internals
        program = torch.onnx.export(
            model, (torch.from_numpy(example.copy()),), dynamo=True, input_names=[INPUT],
            output_names=[OUTPUT], dynamic_shapes=({0: batch},), external_data=False, verbose=False,
        )  # fmt: skip
    assert program is not None
    return _stripped(program.model_proto)


def to_fp16(model: ModelProto) -> ModelProto:
    """Weights and arithmetic in half precision; input, logits and, as in int8, the head stay."""
    half = convert_float_to_float16(
        onnx.ModelProto.FromString(model.SerializeToString()), keep_io_types=True,
        op_block_list=[*DEFAULT_OP_BLOCK_LIST, "Gemm"],
    )  # fmt: skip
    OnnxModel(half).topological_sort()  # casts are appended at the end
    return _stripped(_without_output_casts(half))


def to_int8_by_nncf(model: ModelProto, samples: NDArray[np.uint8]) -> ModelProto:
    """Quantize as OpenVINO likes it, by NNCF's post-training quantization; QDQ again.

    Its fast bias correction cost 0.6 points here (FINDINGS 10), so the accurate one is used.
    """
    import nncf  # type: ignore[import-untyped]  # noqa: PLC0415  ships no types; takes seconds, for one recipe

    logging.getLogger("nncf").setLevel(logging.ERROR)
    data = nncf.Dataset([{INPUT: samples[i : i + 1]} for i in range(len(samples))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its own internals
        quantized = nncf.quantize(
            model, data, preset=nncf.QuantizationPreset.PERFORMANCE, subset_size=len(samples),
            fast_bias_correction=False, ignored_scope=nncf.IgnoredScope(types=["Gemm"]),
        )  # fmt: skip
    return _stripped(quantized)


def to_int8(model: ModelProto, samples: NDArray[np.uint8], batch: int = 32) -> ModelProto:
    """Quantize with `samples` [N, H, W] as calibration data; the last layer stays fp32.

    With the head in fp32 a device or the cloud can replace it alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, prepared, result = (str(Path(folder, f"{n}.onnx")) for n in ("s", "p", "q"))
        onnx.save(model, source)
        quant_pre_process(source, prepared)
        nodes = onnx.load(prepared).graph.node
        in_float = [n.name for n in nodes if n.op_type in ("Gemm", "Mul")]  # head, input scale
        quantize_static(
            prepared, result, _Reader(samples, batch), quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True,
            nodes_to_exclude=in_float,
        )  # fmt: skip
        return _stripped(_without_input_floats(onnx.load(result)))


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime ships no types
    def __init__(self, samples: NDArray[np.uint8], batch: int) -> None:
        self._batches: Iterator[dict[str, NDArray[np.uint8]]] = iter(
            {INPUT: np.ascontiguousarray(samples[i : i + batch])}
            for i in range(0, len(samples), batch)
        )

    def get_next(self) -> dict[str, NDArray[np.uint8]] | None:
        return next(self._batches, None)


def _without_input_floats(model: ModelProto) -> ModelProto:
    """Let the uint8 input be the quantized input: cast, scale and quantize fold into nothing.

    The graph scales by 1/255 and then quantizes with scale 1/255 and zero point 0, which gives
    the pixel back. Raises `Malformed` when the calibration found another scale (no white pixel).
    """
    graph = model.graph
    constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    chain, name = list[NodeProto](), INPUT
    while not chain or chain[-1].op_type != "DequantizeLinear":
        (node,) = (n for n in graph.node if name in n.input)
        chain.append(node)
        name = node.output[0]
    kinds = [node.op_type for node in chain]
    if kinds != ["Unsqueeze", "Cast", "Mul", "QuantizeLinear", "DequantizeLinear"]:
        raise Malformed(f"the graph begins with {kinds}; the networks here scale, then convolve")
    unsqueeze, cast, scale, quantize, dequantize = chain
    step, zero = constants[quantize.input[1]], constants[quantize.input[2]]
    if not np.allclose(step, 1 / 255, rtol=1e-5) or zero.any():
        raise Malformed(f"input scale {step}, zero point {zero}: calibrate with a white pixel")
    dequantize.input[0] = unsqueeze.output[0]
    for node in (cast, scale, quantize):
        graph.node.remove(node)
    return model


def _without_output_casts(model: ModelProto) -> ModelProto:
    """Let the head, which stays in fp32, give the logits itself: to half and back loses digits, and
    OpenVINO then knows the output by the wrong name.
    """
    graph, name = model.graph, OUTPUT
    casts = list[NodeProto]()
    while (last := next(n for n in graph.node if name in n.output)).op_type == "Cast":
        casts.append(last)
        name = last.input[0]
    for node in casts:
        graph.node.remove(node)
    last.output[0] = OUTPUT
    return model


def _stripped(model: ModelProto) -> ModelProto:
    """Without stack traces, source paths and inferred shapes; checked."""
    graph = model.graph
    del graph.value_info[:]
    parts = [model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer]
    for part in parts:
        part.doc_string = ""
        del part.metadata_props[:]
    used = {name for node in graph.node for name in node.input}
    for initializer in [i for i in graph.initializer if i.name not in used]:
        graph.initializer.remove(initializer)
    onnx.checker.check_model(model)
    return model
