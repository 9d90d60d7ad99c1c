"""What a job's process is told, and what it says: one JSON document a line. No torch.

In, on stdin, once: `Order`. Out, on stdout: the others. SIGTERM asks it to write a checkpoint at the
next step and end with `Stopped`; it has `grace_s` for that before SIGKILL. A checkpoint is a file of
`Order.folder`; the process goes on from the newest one that verifies, so that a job which was killed
ends with the weights of one that was not.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, TypeAdapter

from cloud.document import Document
from cloud.training.documents import MetricName, Recipe
from shared.bundle.manifest import Name, Share, Version
from shared.plain_text import plain

LINE_BYTES_MAX = 64 * 1024
Step = Annotated[int, Field(ge=0, le=2**53)]
Text = Annotated[str, AfterValidator(plain)]
"""One line that PostgreSQL does not take would hold up its whole worker."""


class Order(Document):
    """A job, with everything it needs as files: the process asks nobody for anything."""

    job: str
    recipe: Recipe
    folder: Path
    """Its own: checkpoints (`checkpoints/`), and at the end the bundle (`bundle/`) and artifacts."""
    data_set: Path | None = None
    """A file of `cloud/feedback/data_file.py`."""
    bundles: dict[str, Path] = Field(default_factory=dict)
    """By `BundleRef` of the recipe: a folder or `.hyb` file, verified by the worker."""
    base: Path | None = None
    """Folder or `.npz` of the base data; None: the recipe needs none."""
    threads: Annotated[int, Field(ge=1)] = 1
    """Of each process."""
    processes: Annotated[int, Field(ge=1)] = 1
    engine: Literal["local", "ray"] = "local"
    """Where `processes` run: here, or over the Ray cluster that `worker.ray_address` names."""
    checkpoint_s: Annotated[float, Field(gt=0)] = 30.0
    """Between two checkpoints at most, beside one at the end of each epoch."""
    checkpoints_kept: Annotated[int, Field(ge=1)] = 2


class Started(Document):
    kind: Literal["started"] = "started"
    parameters: dict[str, JsonValue]
    machine: Text
    resumed_step: Step | None = None


class Measured(Document):
    kind: Literal["measured"] = "measured"
    step: Step
    progress: Share
    values: Annotated[dict[MetricName, float], Field(max_length=64)]


class Said(Document):
    """A line for people."""

    kind: Literal["said"] = "said"
    text: Annotated[Text, Field(max_length=2000)]


class Checkpointed(Document):
    kind: Literal["checkpointed"] = "checkpointed"
    step: Step
    path: Path


class Stopped(Document):
    """As it was asked; it can go on from its checkpoint."""

    kind: Literal["stopped"] = "stopped"
    step: Step


class Failed(Document):
    """It would fail again for nan_loss, bad_data, bad_checkpoint or bug; not for no_room and away (a disk's
    fault, say), which are its machine's.
    """

    kind: Literal["failed"] = "failed"
    reason: Annotated[Text, Field(max_length=40)]
    words: Annotated[Text, Field(max_length=1000)]
    step: Step | None = None


class Made(Document):
    """The bundle lies in `Order.folder / "bundle"`, complete."""

    kind: Literal["made"] = "made"
    name: Name
    version: Version
    figures: Annotated[dict[MetricName, float], Field(max_length=256)]


Message = Annotated[
    Started | Measured | Said | Checkpointed | Stopped | Failed | Made, Field(discriminator="kind")
]
MESSAGES: TypeAdapter[Message] = TypeAdapter(Message)
