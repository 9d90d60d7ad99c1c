"""What to serve, with which engine, in which batches, and in how much memory."""

import re
from math import inf
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from cloud.serving.batch_rules import BatchRules
from shared.config import Count, Positive, Section

DEVICES: dict[str, str] = {
    "auto": "auto",
    "onnxruntime": "auto|CPU|CUDA|TENSORRT",
    "openvino": r"auto|AUTO|CPU|(GPU|NPU)(\.[0-9]{1,2})?",
    "tensorrt": "auto",
    "triton": "auto",
}
"""By engine, the device names that it takes, as a regular expression."""


class TritonSettings(Section):
    """Where a Triton server runs this bundle's model, when `engine` is "triton"."""

    url: Annotated[str, Field(pattern=r"^https?://[^/\s@]+$", max_length=300)]
    """`http://host:port`, without a path."""
    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")] | None = None
    """Its name there. None: the bundle's own name."""
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] | None = None
    """Its version there: a number on Triton. None: what Triton's own policy picks, usually the latest."""
    concurrency: Annotated[int, Field(gt=0, le=64)] = 4
    """Requests in flight at once: Triton makes batches of them. Four keep one instance busy while
    answers travel; set about twice its instance count when it has more."""
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 5.0
    """For one request. A server that is stuck must not hold a place for longer; ten times what
    the slowest batch of a usual model takes."""


class ModelSettings(Section):
    """One bundle to serve."""

    bundle: Path
    """A folder, or a `.hyb` file."""
    engine: Literal["auto", "onnxruntime", "openvino", "tensorrt", "triton"] = "auto"
    """`auto` takes the fastest variant by a measurement on this machine; a name insists. `triton`
    leaves running it to a Triton server, which `triton` names."""
    device: Annotated[str, Field(max_length=16)] = "auto"
    """Of the engine, by its own names: onnxruntime CPU, CUDA or TENSORRT (its execution providers),
    openvino CPU, GPU, NPU (GPU.1: the second) or AUTO. `auto`: the GPU where onnxruntime has one,
    else the CPU. A name insists: without it the model does not load."""
    threads: Annotated[int, Field(gt=0, le=256)] = 1
    """Of the engine, for one batch. One leaves the other cores to more workers, which scale better
    than threads do at these model sizes."""
    pinned: bool = False
    """Never unloaded to make room for another model."""
    triton: TritonSettings | None = None
    """Needed with `engine = "triton"`, refused without."""

    @model_validator(mode="after")
    def _device_fits(self) -> Self:
        pattern = DEVICES[self.engine]
        if re.fullmatch(pattern, self.device) is None:
            hint = "; name an engine with it" if self.engine == "auto" else ""
            raise ValueError(f"device {self.device!r} with engine {self.engine!r}{hint}: {pattern}")
        return self

    @model_validator(mode="after")
    def _triton_is_named(self) -> Self:
        if (self.engine == "triton") != (self.triton is not None):
            raise ValueError(
                'engine "triton" and the section triton (its url) belong together: set both or none'
            )
        return self


class QueueLimits(Section):
    """How long a request may wait for its batch, in seconds, whatever its deadline; None: for as long
    as its deadline lets it. What would wait for longer is refused at once.
    """

    interactive: Positive | None = None
    """Deadlines of a second and less say enough."""
    near_line: Positive | None = None
    """A window's end says enough."""
    bulk: Positive | None = None
    """Set it where bulk requests come with long deadlines and should rather try another worker."""

    @property
    def by_priority(self) -> tuple[float, float, float]:
        """As `BatchRules` has them."""
        return (self.interactive or inf, self.near_line or inf, self.bulk or inf)


class Batching(Section):
    """When a batch leaves, and how many may wait; the same for every model."""

    size_max: Annotated[int, Field(gt=0, le=1024)] = 32
    """Rows in a batch. On a CPU the plateau starts at 8 to 16; 32 costs little."""
    preferred: tuple[Count, ...] = ()
    """Sizes at which a batch rather leaves, rising. Empty: any size is as good, as on a CPU."""
    p99_ms: Positive | None = None
    """Target for a request's time in queue and model, in ms; what would take longer is refused at
    once. None: each request's own deadline is all that counts."""
    wait_ms_max: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """How long an idle model may wait for company, in ms, where that pays by its measured curve.
    0: it never does; batches grow by themselves while the one before runs."""
    depth_max: Count = 1024
    """Rows of one priority that may wait for one model; more are refused at once."""
    queue_s_max: QueueLimits = QueueLimits()
    """Beside the deadlines, which hold in any case."""
    bulk_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """By how much near-line and bulk work may delay an interactive request, as a share of
    `p99_ms`, or of a full batch's time without one."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.depth_max < self.size_max:
            raise ValueError(f"depth_max {self.depth_max} is below size_max {self.size_max}")
        rising = sorted(set(self.preferred))
        if list(self.preferred) != rising or (rising and rising[-1] > self.size_max):
            raise ValueError(
                f"preferred {list(self.preferred)} must rise and end at most at size_max "
                f"{self.size_max}"
            )
        return self

    def rules(self, size_max: int) -> BatchRules:
        """For a model that takes at most `size_max` rows in a run."""
        size = min(self.size_max, size_max)
        return BatchRules(
            size_max=size,
            preferred=tuple(each for each in self.preferred if each <= size),
            p99_s=None if self.p99_ms is None else self.p99_ms / 1e3,
            wait_s_max=self.wait_ms_max / 1e3,
            depth_max=self.depth_max,
            queue_s_max=self.queue_s_max.by_priority,
            bulk_share=self.bulk_share,
        )


class PoolSettings(Section):
    """Which models are in memory at once."""

    memory_bytes_max: Count = 4 * 1024**3
    """Of all loaded models together, by estimate before a load and by measured growth after it.
    What was used least recently goes when another needs room. Fits a small server."""
    versions_max: Annotated[int, Field(gt=0, le=16)] = 2
    """Loaded versions of one model. Two: the version before stays at hand for a way back, and
    leaves at once when memory is needed."""
    folder: Path | None = None
    """Bundles (folders and `.hyb` files) that may be loaded by name, beside those of `models`;
    they load when first asked for. None: there are no others."""
    bundles_max: Annotated[int, Field(gt=0, le=10_000)] = 256
    """Of the folder; more are refused, so that a wrong path is noticed and not read for hours."""
    retire_s_max: Positive = 30.0
    """How long a version that was replaced waits for requests that found it before they are in its
    queue. Slow uploads hold it; 30 s is what a drain may take."""
    retry_s: Positive = 30.0
    """After a load that failed, requests for the model start no other one for so long."""
