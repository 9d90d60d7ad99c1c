"""What is said between an evaluator and the process that runs one variant: a line of JSON each."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from cloud.registry.evaluation.inputs import Kind

LINE_BYTES_MAX = 8 * 1024**2


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Open(_Message):
    """Comes first; limits itself, opens the bundle in a folder and one variant of it."""

    do: Literal["open"] = "open"
    folder: str
    variant: str
    threads: int
    batch_max: int
    nice: int
    memory_bytes_max: int


class Golden(_Message):
    """Answer the golden inputs into the .npy file `out`."""

    do: Literal["golden"] = "golden"
    out: str


class AnswerInputs(_Message):
    """Answer the inputs in a .npy file, as they are or shaken, into the .npy file `out`."""

    do: Literal["answer"] = "answer"
    inputs: str
    out: str
    kind: Kind | None = None
    low: float = 0.0
    high: float = 0.0
    noise: float = 0.0
    blur: float = 0.0
    brightness: float = 0.0
    seed: int = 0


class TakeStep(_Message):
    """Step along the estimated gradient, and at random; answers [2, N, classes] into `out`."""

    do: Literal["step"] = "step"
    inputs: str
    labels: tuple[int, ...]
    out: str
    low: float
    high: float
    size: float
    directions: int
    seed: int


class Time(_Message):
    """Time single runs of one batch size: at most `runs`, and three at least whatever `s_max`."""

    do: Literal["time"] = "time"
    inputs: str
    batch: int
    runs: int
    s_max: float


class Opened(_Message):
    is_: Literal["opened"] = "opened"
    engine_version: str


class Answered(_Message):
    is_: Literal["answered"] = "answered"
    memory_bytes: int | None = None  # growth since before the engine was imported, at its highest


class Timed(_Message):
    is_: Literal["timed"] = "timed"
    ms: tuple[Annotated[float, Field(ge=0)], ...]


class Failed(_Message):
    """`absent`: this machine cannot run the engine, which is not the model's fault."""

    is_: Literal["failed"] = "failed"
    absent: bool
    why: str


Request = Open | Golden | AnswerInputs | TakeStep | Time
Reply = Opened | Answered | Timed | Failed
REQUESTS: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="do")])
REPLIES: TypeAdapter[Reply] = TypeAdapter(Annotated[Reply, Field(discriminator="is_")])
