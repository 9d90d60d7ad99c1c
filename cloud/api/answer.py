"""The answer to an inference call as a response's body. Pure.

Where every wanted output is binary, the JSON (`answer_header`) depends on the outputs only through
the byte counts of their parts (`answer_parts`): the same call, model, source and counts give the
same bytes, so whoever answers many calls may keep them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cloud.api.call import Asked
from cloud.serving.job import Outputs
from shared.bundle.manifest import Manifest
from shared.errors import Malformed, Unavailable
from shared.oip.body import Encoded
from shared.oip.datatypes import AnyArray, Datatype, numpy_dtype
from shared.oip.documents import Document, dump

_DERIVED: Mapping[str, Datatype] = {
    "label": "BYTES", "index": "INT64", "confidence": "FP32", "source": "BYTES",
}  # fmt: skip

_FP32, _INT64 = numpy_dtype("FP32"), numpy_dtype("INT64")

Part = bytes | memoryview
NUMBERS_INLINE_MAX = 1024
"""Of outputs that may be written as JSON on the event loop: half a ms."""


def write_answer(
    asked: Asked, manifest: Manifest, outputs: Outputs, version: str, source: str
) -> Encoded:
    """The response's body: the wanted outputs of all rows, in the order in which they were asked for.

    Raises `Unavailable` for outputs that JSON cannot carry: the model gave NaN or an infinity.
    """
    parts = answer_parts(asked, manifest, outputs, source)
    sizes = [_size(part) for part in parts]
    rows = len(outputs.logits)
    data = {
        name: _json_data(name, manifest, outputs, source)
        for name, binary in asked.wanted if not binary
    }  # fmt: skip
    try:
        header = answer_header(asked, manifest, rows, version, source, sizes, data)
    except Malformed as error:
        raise Unavailable(
            f"{manifest.name} {version} gave NaN or an infinity, which JSON cannot say; "
            "ask for binary data to see it"
        ) from error
    return Encoded(b"".join((header, *parts)), len(header) if parts else None)


def answer_parts(asked: Asked, manifest: Manifest, outputs: Outputs, source: str) -> list[Part]:
    """The binary section in its order, C-contiguous little-endian; [] when JSON carries it all."""
    return [_binary(name, manifest, outputs, source) for name, binary in asked.wanted if binary]


def answer_header(
    asked: Asked,
    manifest: Manifest,
    rows: int,
    version: str,
    source: str,
    sizes: Sequence[int],
    data: Mapping[str, list[Any]] | None = None,
) -> bytes:
    """The response's JSON. `sizes`: bytes of each of `answer_parts`; `data`: what goes as JSON."""
    left = iter(sizes)
    members = list[Document]()
    for name, binary in asked.wanted:
        member: Document = {"name": name} | _kind(name, manifest, rows)
        if binary:
            member["parameters"] = {"binary_data_size": next(left)}
        else:
            member["data"] = (data or {})[name]
        members.append(member)
    document: Document = {"model_name": manifest.name, "model_version": version}
    if asked.id:
        document["id"] = asked.id
    document["parameters"] = {"source": source}
    return dump({**document, "outputs": members})


def _kind(name: str, manifest: Manifest, rows: int) -> Document:
    raw = manifest.outputs[0]
    if name == raw.name:
        return {"datatype": "FP32", "shape": [rows, *raw.shape]}
    if name == "probabilities":
        return {"datatype": "FP32", "shape": [rows, len(manifest.labels)]}
    return {"datatype": _DERIVED[name], "shape": [rows]}


def _binary(name: str, manifest: Manifest, outputs: Outputs, source: str) -> Part:
    match name:
        case "label":
            return b"".join(map(_counted, _labels(manifest, outputs)))
        case "source":
            return _counted(source) * len(outputs.logits)
        case _:
            return np.ascontiguousarray(_numbers(name, manifest, outputs)).data


def _json_data(name: str, manifest: Manifest, outputs: Outputs, source: str) -> list[Any]:
    match name:
        case "label":
            return _labels(manifest, outputs)
        case "source":
            return [source] * len(outputs.logits)
        case _:
            return list(_numbers(name, manifest, outputs).reshape(-1).tolist())


def _numbers(name: str, manifest: Manifest, outputs: Outputs) -> AnyArray:
    """Little-endian, in the datatype that the header says."""
    match name:
        case "probabilities":
            return np.asarray(outputs.probabilities, _FP32)
        case "confidence":
            return np.asarray(outputs.probabilities.max(axis=-1), _FP32)
        case "index":
            return np.asarray(outputs.probabilities.argmax(axis=-1), _INT64)
        case _:
            assert name == manifest.outputs[0].name
            return np.asarray(outputs.logits, _FP32)


def _labels(manifest: Manifest, outputs: Outputs) -> list[str]:
    return [manifest.labels[index] for index in outputs.probabilities.argmax(axis=-1).tolist()]


def _counted(text: str) -> bytes:
    """An element of BYTES: its length as a little-endian uint32, then itself."""
    content = text.encode()
    return len(content).to_bytes(4, "little") + content


def _size(part: Part) -> int:
    return len(part) if isinstance(part, bytes) else part.nbytes
