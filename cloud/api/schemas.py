"""The documents of the API, as pydantic models: what is sent is built from most of them, and all of
them are in `/openapi.json`.

Open Inference Protocol v2 with the extensions of Triton that `tritonclient` asks for: model
repository, model configuration, statistics, binary tensor data, schedule policy.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from shared.oip.datatypes import Datatype

Name = Annotated[str, Field(max_length=256)]
Parameter = bool | int | float | str
Size = Annotated[int, Field(ge=0)]


class Document(BaseModel):
    model_config = ConfigDict(
        frozen=True, protected_namespaces=(), use_attribute_docstrings=True, strict=True
    )


class Problem(Document):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    error: str
    """The detail again, where clients of the Open Inference Protocol look."""
    instance: str | None = None
    """The request's id."""
    retry_after_s: float | None = None


class Live(Document):
    live: bool


class Ready(Document):
    ready: bool
    because: str | None
    """Why it is not."""


class ServerMetadata(Document):
    name: str
    version: str
    extensions: tuple[str, ...]


class TensorMetadata(Document):
    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    """-1 for the free number of rows."""


class ModelMetadata(Document):
    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


class ModelReady(Document):
    name: str
    ready: bool


class ConfigTensor(Document):
    name: str
    data_type: str
    dims: tuple[int, ...]
    reshape: dict[Literal["shape"], tuple[int, ...]] | None = None


class DynamicBatching(Document):
    preferred_batch_size: tuple[int, ...] = ()
    max_queue_delay_microseconds: int
    priority_levels: int
    default_priority_level: int


class ModelConfig(Document):
    """Triton's `ModelConfig`, what there is of it here."""

    name: str
    platform: str
    backend: str
    max_batch_size: int
    input: tuple[ConfigTensor, ...]
    output: tuple[ConfigTensor, ...]
    dynamic_batching: DynamicBatching
    parameters: dict[str, dict[Literal["string_value"], str]] = {}


class Duration(Document):
    count: int = 0
    ns: int = 0


class InferStatistics(Document):
    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    cache_hit: Duration
    cache_miss: Duration


class ModelStatistics(Document):
    name: str
    version: str
    last_inference: int
    """Milliseconds since 1970, 0 for never."""
    inference_count: int
    """Rows answered."""
    execution_count: int
    """Batches that the model ran."""
    inference_stats: InferStatistics
    batch_stats: tuple[JsonValue, ...] = ()
    memory_usage: tuple[JsonValue, ...] = ()


class Statistics(Document):
    model_stats: tuple[ModelStatistics, ...]


class InputTensor(Document):
    """`data` as JSON, or `parameters.binary_data_size` bytes of the body's binary section."""

    name: Name
    datatype: Datatype
    shape: tuple[Size, ...] = Field(min_length=1, max_length=8)
    data: list[Any] | None = Field(default=None, json_schema_extra={"type": "array", "items": {}})
    parameters: dict[str, Parameter] = {}


class RequestedOutput(Document):
    name: Name
    parameters: dict[str, Parameter] = {}


class InferRequest(Document):
    id: Annotated[str, Field(max_length=256)] = ""
    parameters: dict[str, Parameter] = {}
    """`timeout` (microseconds), `priority` (0 or 1 interactive, 2 near-line, 3 bulk), `tier` (fast,
    full, asynchronous), `webhook` (a URL, with asynchronous), `binary_data_output`."""
    inputs: tuple[InputTensor, ...] = Field(max_length=64)
    outputs: tuple[RequestedOutput, ...] = Field(default=(), max_length=64)


class OutputTensor(Document):
    name: str
    datatype: Datatype
    shape: tuple[Size, ...]
    data: list[Any] = []
    parameters: dict[str, Parameter] = {}


class InferResponse(Document):
    model_name: str
    model_version: str
    id: str = ""
    parameters: dict[str, Parameter] = {}
    """`source`: cloud, cache or rule."""
    outputs: tuple[OutputTensor, ...]


class Accepted(Document):
    """An asynchronous call: its result will be at `location`."""

    id: str
    status: str
    location: str


class JobError(Document):
    reason: str
    detail: str


class Job(Document):
    """Times are RFC 3339."""

    id: str
    model: str
    version: str | None
    status: str
    attempts: int
    created_at: str
    expires_at: str
    ended_at: str | None = None
    kept_until: str | None = None
    error: JobError | None = None
    webhook: JsonValue = None


class Results(Document):
    results: tuple[Job, ...]
    next: str | None
    """For `before`, to read on."""


class IndexRequest(Document):
    ready: bool = False
    """Only what is ready."""


class RepositoryRequest(Document):
    parameters: dict[str, Parameter] = {}
    """`version`: of a model with several; the newest one is loaded, all are unloaded without."""


class IndexedModel(Document):
    name: str
    version: str
    state: Literal["READY", "LOADING", "UNAVAILABLE"]
    reason: str


class RepositoryAnswer(Document):
    name: str
    version: str | None = None


class ModelStatus(Document):
    name: str
    version: str
    answers_for: tuple[str, ...]
    variant: str
    why: str
    queue_depth: int
    batch_ms: dict[int, float]


class NearLineState(Document):
    """`late` inputs were left by the last window, `behind` windows in a row left some."""

    job: str
    state: str
    next_window: str
    rows: int
    """Since this process began."""
    late: int
    behind: int
    alert: str | None


class Status(Document):
    name: str
    ready: bool
    not_ready_because: str | None
    broker: str | None
    processes: int = 1
    """Serving processes on this port, of which the rest tells."""
    in_hand: int
    """Escalations."""
    store_up: bool
    jobs_up: bool = True
    """Whether asynchronous calls can be kept; the others do not need it, so it is not readiness."""
    busy_share: float = 0.0
    """Of the last seconds, in which models ran."""
    queue_depth: int = 0
    """Rows of interactive calls that wait for a batch now, of all models."""
    p99_ms: float | None = None
    """Of interactive calls in the last seconds; null where there were none."""
    p99_target_ms: float | None = None
    near_line: tuple[NearLineState, ...] = ()
    models: tuple[ModelStatus, ...]
