"""`manifest.json` of a bundle, format 1. What it does not say, the bundle does not have."""

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self, assert_never

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator

FORMAT = 1

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
VERSION: Final = r"(?:0|[1-9][0-9]{0,5})(?:\.(?:0|[1-9][0-9]{0,5})){2}"
"""Without leading zeros: 01.0.0 beside 1.0.0 would be two of one rank."""
Version = Annotated[str, StringConstraints(pattern=rf"^{VERSION}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Precision = Literal["int8", "fp16", "bf16", "fp32"]
_PLAIN_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){0,3}")


def is_plain_path(path: str) -> bool:
    """At most four plain names of ASCII letters, digits, '.', '_', '-': nothing leads outside."""
    return len(path) <= 200 and _PLAIN_PATH.fullmatch(path) is not None


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class File(_Part):
    """One file of the bundle: a relative path of plain names, and what it must hold."""

    path: str
    sha256: Sha256
    bytes: Annotated[int, Field(ge=0, le=2**32)]

    @model_validator(mode="after")
    def _inside(self) -> Self:
        if not is_plain_path(self.path):
            raise ValueError(f"path {self.path[:80]!r} is not a plain relative path")
        return self


class Tensor(_Part):
    """A graph's input or output; `shape` is without the free batch axis, which comes first."""

    name: str
    dtype: Literal["uint8", "int8", "int16", "int32", "int64", "float16", "float32"]
    shape: tuple[Annotated[int, Field(gt=0)], ...]


class Variant(_Part):
    """One artifact for an engine and a precision. Two variants may share one file."""

    engine: Literal["onnxruntime", "openvino", "tensorrt"]
    precision: Precision
    file: File
    runtime: dict[str, str] = {}  # distribution -> version specifier (PEP 440)

    @property
    def key(self) -> str:
        return f"{self.engine}/{self.precision}"


class Guarantee(_Part):
    """What holds with probability 1 - delta over the draw of the calibration samples."""

    statement: str
    method: str
    epsilon: Share
    delta: Share
    samples: Annotated[int, Field(ge=0)]


class Threshold(_Part):
    """Escalate below `confidence_min`; the measured shares are those of the calibration split."""

    name: Name
    confidence_min: Annotated[float, Field(ge=0)]  # above 1: escalate everything
    guarantee: Guarantee | None
    escalated_share: Share
    hybrid_accuracy: Share


class Calibration(_Part):
    temperature: Annotated[float, Field(gt=0)]
    score: Literal["max_softmax"]
    thresholds: tuple[Threshold, ...] = ()  # empty for a model that never escalates
    default_threshold: Name | None = None
    fusion_cloud_weight: Share = 1.0

    @model_validator(mode="after")
    def _default_is_listed(self) -> Self:
        names = [threshold.name for threshold in self.thresholds]
        if len(set(names)) != len(names):
            raise ValueError(f"threshold names repeat: {names}")
        if (self.default_threshold is None) != (not names) or (
            names and self.default_threshold not in names
        ):
            raise ValueError(f"default_threshold {self.default_threshold!r} is not one of {names}")
        return self


class Golden(_Part):
    """`file` is .npz with `inputs` [N, ...] and `outputs` [N, ...] of the fp32 reference."""

    file: File
    tolerance: dict[Precision, Annotated[float, Field(gt=0)]]  # largest absolute difference
    agreement_min: dict[Precision, Share]  # share of samples with the reference's winner


class PayloadCodec(_Part):
    """How samples of this model travel when they are escalated (`shared/wire/pixels.py`)."""

    codec: Literal["raw", "zstd", "grey4"]
    dictionary: File | None = None


class Sketch(_Part):
    """Counts of a reference distribution between edges: len(counts) == len(edges) + 1."""

    feature: str
    edges: tuple[float, ...]
    counts: tuple[Annotated[int, Field(ge=0)], ...]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.counts) != len(self.edges) + 1 or list(self.edges) != sorted(self.edges):
            raise ValueError(f"sketch {self.feature!r}: edges must rise, counts be one more")
        return self


class Backbone(_Part):
    """The model whose output a head takes: this very version, since a head fits no other."""

    name: Name
    version: Version


class Lineage(_Part):
    data_set: str
    data_sha256: Sha256
    code_version: str
    hyperparameters: dict[str, JsonValue]
    metrics: dict[str, float]


class Manifest(_Part):
    """`task` "embed": a backbone, whose first output float32 [features] is input of the heads that
    name it as their `backbone`; it has no labels, and its calibration says nothing.

    A head's `inputs` are its graph's: the backbone's output. Requests to it carry the backbone's
    own input, and so do its payload codec and its reference; its golden inputs are features.
    """

    format: Literal[1]
    name: Name
    version: Version
    task: Literal["classify", "embed"]
    inputs: tuple[Tensor, ...] = Field(min_length=1)
    outputs: tuple[Tensor, ...] = Field(min_length=1)
    labels: tuple[str, ...] = ()  # none for "embed", two or more otherwise
    backbone: Backbone | None = None
    answers_for: tuple[Name, ...] = ()  # cloud models: the edge models whose escalations they take
    variants: tuple[Variant, ...] = Field(min_length=1)
    calibration: Calibration
    golden: Golden
    payload: PayloadCodec
    reference: tuple[Sketch, ...]
    lineage: Lineage
    card: File  # Markdown: task, training data, limits, known failure modes

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        match self.task:
            case "classify":
                self._classifies()
            case "embed":
                self._embeds()
            case _:
                assert_never(self.task)
        if self.backbone is not None:
            self._takes_features(self.backbone)
        keys = [variant.key for variant in self.variants]
        if len(set(keys)) != len(keys):
            raise ValueError(f"variants repeat: {keys}")
        by_path: dict[str, File] = {}
        for file in self.files():
            if by_path.setdefault(file.path, file) != file:
                raise ValueError(f"{file.path} is listed twice with different contents")
        return self

    def _classifies(self) -> None:
        if len(self.labels) < 2:
            raise ValueError(f"labels: {len(self.labels)} of them; a classifier needs two or more")
        if self.outputs[0].shape != (len(self.labels),):
            raise ValueError(
                f"outputs[0] has shape {self.outputs[0].shape} for {len(self.labels)} labels"
            )

    def _embeds(self) -> None:
        if self.labels or self.answers_for or self.calibration.thresholds or self.backbone:
            raise ValueError(
                "a model that embeds answers nobody: it has no labels, answers_for, thresholds or "
                "backbone; move them to its heads"
            )
        features = self.outputs[0]
        if features.dtype != "float32" or len(features.shape) != 1:
            raise ValueError(
                f"outputs[0] is {features.dtype}{list(features.shape)}; heads take float32 "
                "[features]"
            )

    def _takes_features(self, backbone: Backbone) -> None:
        if len(self.inputs) != 1 or self.inputs[0].dtype != "float32" or (
            len(self.inputs[0].shape) != 1
        ):  # fmt: skip
            raise ValueError(
                f"inputs: a head of {backbone.name} takes its output alone, one float32 [features]"
            )
        if backbone.name == self.name:
            raise ValueError(f"backbone: {self.name} cannot be its own")

    def files(self) -> Iterator[File]:
        """Every file that the bundle must hold, in the order of the manifest; may repeat."""
        yield from (variant.file for variant in self.variants)
        yield self.golden.file
        if self.payload.dictionary is not None:
            yield self.payload.dictionary
        yield self.card
