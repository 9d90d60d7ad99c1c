"""All the cloud's settings: one TOML file, read once in `__main__`, passed down as values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from cloud.api.settings import Api
from cloud.batch.settings import BatchSettings
from cloud.broker.settings import BrokerSettings
from cloud.capacity.settings import Budget
from cloud.experiments.settings import Experiment
from cloud.gateway.settings import GatewaySettings
from cloud.jobs.settings import JobSettings
from cloud.monitoring.settings import InferenceLogSettings
from cloud.serving.caches.settings import FeatureCacheSettings, ResultCacheSettings
from cloud.serving.fallback_settings import Reliability
from cloud.serving.settings import Batching, ModelSettings, PoolSettings
from cloud.settings_file import checked, read_settings
from cloud.updates.settings import RegistryModels
from shared.bundle.manifest import Name
from shared.config import Count, Positive, Section
from shared.errors import Malformed

_PATHS = frozenset({
    "state_dir", "bundle", "tls_cert", "tls_key", "tls_ca", "tls_crl", "pid_file", "password_file", "acl_file", "folder",
    "key_file", "keys_file", "revoked_file", "out", "api_key_file", "root", "ca", "certificate", "key",
})  # fmt: skip


class Ingest(Section):
    """MQTT deliveries."""

    receive_max: Annotated[int, Field(gt=0, le=65_535)] = 512
    """Deliveries in hand, unacknowledged; the broker sends no more. Bounds this worker's memory,
    at 128 KiB each, and what is done twice after a kill. Sixteen full batches."""
    remembered_max: Count = 10_000
    """Answers kept in memory for samples that come again; about 0.5 KB each."""
    session_expiry_s: Annotated[int, Field(ge=0)] = 0
    """0: when this worker goes, the broker gives its deliveries to another at once. The devices'
    outboxes are the queue; a session kept for a dead worker would only hide samples from the
    living."""
    tls_ca: Path | None = None
    """PEM file of who vouches for the broker, when it uses TLS. None: the system's own list."""
    tls_cert: Path | None = None
    """This worker's certificate, PEM, for a broker that asks for one."""
    tls_key: Path | None = None
    """Its private key, PEM."""
    backoff_s_max: Annotated[float, Field(gt=0, le=300)] = 2.0
    """Longest pause between attempts to reach the broker, before jitter. Workers are few and every
    device waits for them, so they return sooner than devices (30 s) do."""
    keepalive_s: Annotated[int, Field(gt=0, le=65_535)] = 15
    """Silence after which the broker takes this worker for dead and hands its work on, x 1.5."""


class Store(Section):
    """Where escalations and answers are kept for training."""

    url: str | None = None
    """An SQLAlchemy URL. None: SQLite in `state_dir`, which one machine's workers may share."""
    rows_max: Count = 500_000
    """Rows kept; the oldest go first. Some training sets' worth; a start reads every id, 0.1 s for
    each 10,000."""
    bytes_max: Count = 2 * 1024**3
    """Bytes kept, of payloads and about 450 a row; the oldest go first. Fits a small disk."""
    device_rows_share_max: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Of `rows_max` and `bytes_max`, per device: what one has above it goes first when the store is
    full, so that a device which floods it evicts its own samples."""
    pending_max: Count = 4096
    """Rows that may wait for a commit, in memory; what comes above it is lost, and counted."""


class Config(Section):
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")] = "worker"
    """This worker's, for people; with `ingest.session_expiry_s` above 0 also for the broker, and
    then no other worker of that broker may have it."""
    state_dir: Path = Path("hybridge-cloud")
    """For the feedback store, jobs, engine caches, the inference log and the broker's files."""
    models: tuple[ModelSettings, ...] = ()
    registry: RegistryModels | None = None
    """Models that come from the registry, beside those of `models`."""
    broker: BrokerSettings = BrokerSettings()
    batching: Batching = Batching()
    pool: PoolSettings = PoolSettings()
    ingest: Ingest = Ingest()
    store: Store = Store()
    api: Api = Api()
    gateway: GatewaySettings = GatewaySettings()
    result_cache: ResultCacheSettings = ResultCacheSettings()
    feature_cache: FeatureCacheSettings = FeatureCacheSettings()
    reliability: dict[Name, Reliability] = Field(default_factory=dict)
    """By model name: its circuit breaker, and what answers in its place."""
    experiments: Annotated[tuple[Experiment, ...], Field(max_length=32)] = ()
    """Versions of a model side by side, at most one experiment a model. None by default."""
    jobs: JobSettings = JobSettings()
    batch: BatchSettings = BatchSettings()
    inference_log: InferenceLogSettings = InferenceLogSettings()
    budget: Budget = Budget()
    """Changes nothing that is served: `hybridge budget show --config` holds a worker against it."""
    processes: Annotated[int, Field(gt=0, le=256)] = 1
    """Serving processes behind one port, each with its own models and engines: one a core, for
    models that a core runs in milliseconds. Rates and connections count in each of them."""
    notice_s: Annotated[float, Field(ge=0, le=300)] = 5.0
    """After SIGTERM new requests are still answered for so long, while readiness says no: balancers
    look every second or so. Only where there were requests over HTTP."""
    drain_s: Positive = 30.0
    """From then on to a forced end; supervisors kill after 90."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _serves_something(self) -> Self:
        if not self.models and self.registry is None:
            raise ValueError("models: name one bundle at least, or a registry that has some")
        if self.registry is not None and self.pool.folder is not None:
            raise ValueError(
                "pool.folder and registry: one of them says which bundles there are; name those of "
                "the folder in models"
            )
        return self

    @model_validator(mode="after")
    def _experiments_differ(self) -> Self:
        for what in ("name", "model"):
            names = [getattr(one, what) for one in self.experiments]
            if len(set(names)) < len(names):
                raise ValueError(f"experiments: two have the same {what}; each needs its own")
        return self

    @model_validator(mode="after")
    def _store_keeps_up(self) -> Self:
        if self.store.pending_max < self.ingest.receive_max:
            raise ValueError(
                f"store.pending_max {self.store.pending_max} is below ingest.receive_max "
                f"{self.ingest.receive_max}: a delivery in hand may need a place"
            )
        return self

    @model_validator(mode="after")
    def _worker_gets_in(self) -> Self:
        if self.broker.kind == "mosquitto" and self.broker.password_file is not None:
            raise ValueError(
                "broker.password_file with kind 'mosquitto': this worker would have no way in; run "
                "Mosquitto yourself and name it by kind 'url' with a user of this worker's"
            )
        return self

    @model_validator(mode="after")
    def _api_is_guarded(self) -> Self:
        try:
            self.gateway.check_exposed(self.api.host)
        except Malformed as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def jobs_url(self) -> str:
        return self.jobs.url or f"sqlite:///{self.state_dir / 'jobs.db'}"

    @property
    def store_url(self) -> str:
        return self.store.url or f"sqlite:///{self.state_dir / 'feedback.db'}"


def load(path: Path, over: Mapping[str, object]) -> Config:
    """The file's settings, with those of `over` on top, section by section.

    Paths in the file count from its own folder, those in `over` from the working directory.
    Raises `Malformed` in words.
    """
    return parse(read_settings(Config, path, over, _PATHS), str(path))


def parse(tree: Mapping[str, object], where: str) -> Config:
    """A tree of settings to a checked one; `where` is what messages call it."""
    return checked(Config, _with_broker_folder(tree), where)


def _with_broker_folder(tree: Mapping[str, object]) -> Mapping[str, object]:
    """A broker that we start keeps its files in `state_dir` unless it is told otherwise."""
    broker = tree.get("broker", {})
    if not isinstance(broker, dict) or broker.get("kind") == "url":
        return tree
    state_dir = tree.get("state_dir", Config.model_fields["state_dir"].default)
    return {**tree, "broker": {"state_dir": str(Path(str(state_dir)) / "broker"), **broker}}
