"""All the agent's settings: read once, in `__main__`, and passed down as values."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from shared import ids
from shared.errors import Malformed
from shared.mqtt import LinkSettings, broker_address

Positive = Annotated[float, Field(gt=0)]
_MIB = 1024 * 1024


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Deadlines(_Section):
    """Three promises to the application, all counted from a sample's arrival."""

    fast_ms: Positive = 50.0
    """The edge's own answer, in ms; 50 ms still feels immediate to a person. Misses are counted."""

    full_ms: Positive = 1000.0
    """The final answer while somebody waits, in ms; one second is what a person stays with."""

    asynchronous_s: Positive = 86_400.0
    """How long the cloud's answer is still wanted, in s; a day outlasts most outages."""

    @model_validator(mode="after")
    def _rise(self) -> Self:
        if not self.fast_ms <= self.full_ms <= self.asynchronous_s * 1000:
            raise ValueError("deadlines must rise: fast_ms <= full_ms <= asynchronous_s * 1000")
        return self


class Budget(_Section):
    """What the uplink may cost; the least confident samples go first when it binds."""

    samples_per_s: Positive | None = None
    """Escalations a second; no limit by default, because the threshold already limits them."""

    bytes_per_s: Positive | None = None
    """MQTT payload bytes a second; no limit by default. Set it on a metered link."""

    burst_s: Positive = 2.0
    """Seconds of unused budget that may be spent at once; two ride out a flurry of events."""


class Routing(_Section):
    """Which samples the cloud is asked about."""

    threshold: str | None = None
    """A name in the bundle's threshold table; the bundle's own default when absent."""

    confidence_min: Annotated[float, Field(ge=0, le=2)] | None = None
    """Escalate below this instead of a named threshold; no guarantee comes with it. Over 1: all."""

    audit_share: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Share of confident samples sent all the same; 1% bounds the error on accuracy to about two
    points within 10,000 samples, and is the only way to see what the edge is sure and wrong of."""

    budget: Budget = Budget()
    """No limits by default."""

    payload: Literal["raw", "zstd", "grey4"] | None = None
    """How samples travel; what the bundle was measured with when absent. zstd loses nothing."""

    fusion: bool = True
    """Pool both answers with the bundle's weight; the cloud's answer alone when off."""

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if self.threshold is not None and self.confidence_min is not None:
            raise ValueError("set threshold or confidence_min, not both")
        return self


class Outbox(_Section):
    """Escalations on disk that wait for their answer, for at most `deadlines.asynchronous_s`."""

    bytes_max: Annotated[int, Field(gt=0)] = 64 * _MIB
    """Bytes; 64 MiB hold 200,000 small images and fit the smallest flash partitions."""

    rows_max: Annotated[int, Field(gt=0, le=5_000_000)] = 100_000
    """Rows; each takes about 0.3 KiB of memory for its place in the queue, so 30 MiB."""


class Answers(_Section):
    """Final answers that are remembered."""

    kept_max: Annotated[int, Field(gt=0)] = 100_000
    """On disk, newest first, about 200 bytes each: 20 MiB."""

    in_memory_max: Annotated[int, Field(gt=0)] = 10_000
    """In memory, about 0.7 KiB each: 7 MiB."""

    stream_max: Annotated[int, Field(gt=0)] = 10_000
    """Answers that one subscriber may lag behind before its stream is closed: one second's worth
    at full speed."""


class Uplink(_Section):
    """The MQTT link to the cloud."""

    url: str
    """mqtt://host[:port] (1883) or mqtts://host[:port] (8883)."""

    username: str | None = None
    """Absent where the client certificate is the identity."""

    password: SecretStr | None = None
    """Never logged."""

    ca: Path | None = None
    """PEM file of the broker's authority; the system's store when absent."""

    certificate: Path | None = None
    """PEM file of this device's certificate."""

    key: Path | None = None
    """PEM file of its private key."""

    keepalive_s: Annotated[int, Field(ge=5, le=3600)] = 30
    """Seconds; a dead link is noticed within 1.5 times this."""

    window: Annotated[int, Field(ge=1, le=1000)] = 20
    """Publishes without PUBACK; 20 reach paho's full speed (FINDINGS 2)."""

    unanswered_max: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Samples with the cloud at once; enough for 2,000 answers/s at 100 ms, and all that a slow
    cloud has to queue for this device."""

    answer_timeout_s: Positive = 5.0
    """Seconds without an answer until a sample is sent again; five full deadlines."""

    backoff_s_min: Positive = 0.2
    """First reconnect or retry delay, in s, before jitter."""

    backoff_s_max: Positive = 30.0
    """Longest one, in s: a fleet returns within half a minute of its broker."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            self.address()
        except Malformed as error:
            raise ValueError(str(error)) from error
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key come together")
        return self

    def address(self) -> tuple[str, int, bool]:
        """Host, port, and whether to speak TLS. Raises `Malformed`."""
        if "@" in self.url:
            raise Malformed("url: put credentials into username and password, not into the url")
        return broker_address(self.url)

    def link_settings(self, device: ids.DeviceId) -> LinkSettings:
        host, port, tls = self.address()
        return LinkSettings(
            host=host, port=port, client_id=device, username=self.username,
            password=None if self.password is None else self.password.get_secret_value(),
            tls=tls, tls_ca=_text(self.ca), tls_certificate=_text(self.certificate),
            tls_key=_text(self.key), keepalive_s=self.keepalive_s, window=self.window,
            backoff_s_min=self.backoff_s_min, backoff_s_max=self.backoff_s_max,
        )  # fmt: skip


class Api(_Section):
    """The local HTTP API for applications on this device."""

    host: str = "127.0.0.1"
    """Loopback only by default: the API has no password."""

    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """0 takes a free port, printed when the agent is ready."""


class FolderSource(_Section):
    """Images that other programs put into a folder."""

    kind: Literal["folder"]
    path: Path
    """Subfolders are not read."""

    interval_s: Positive = 1.0
    """Seconds between two looks at the folder; cheap at once a second, on any file system."""

    after: Literal["keep", "delete"] = "keep"
    """What becomes of a file once its sample is on record; never delete unasked."""


class ReplaySource(_Section):
    """A data set played back: IDX or NPY/NPZ file, or a folder of PNG and JPEG."""

    kind: Literal["replay"]
    path: Path
    """One file or folder."""

    rate_per_s: Positive | None = None
    """Samples a second; as fast as it goes when absent."""

    shard: Annotated[str, Field(pattern=r"^[0-9]{1,6}/[1-9][0-9]{0,5}$")] | None = None
    """ "0/3" plays every third sample from the first: three agents share one data set."""

    repeat: bool = False
    """Start over at the end, for soak tests."""

    @model_validator(mode="after")
    def _shard_exists(self) -> Self:
        index, count = self.part
        if index >= count:
            raise ValueError(f"shard {self.shard!r}: the first number must be below the second")
        return self

    @property
    def part(self) -> tuple[int, int]:
        """`shard` as numbers; (0, 1) is the whole."""
        index, count = (self.shard or "0/1").split("/")
        return int(index), int(count)


Source = Annotated[FolderSource | ReplaySource, Field(discriminator="kind")]


class Config(_Section):
    """One agent."""

    device_id: str
    """1 to 64 of letters, digits, '_', '.', '-'; its name in topics and its MQTT client id."""

    state_dir: Path
    """Holds the outbox, the answers and the lock; one agent each."""

    bundle: Path
    """The model: a bundle's folder or its .hyb archive."""

    engine: Annotated[str, Field(pattern=r"^[a-z]{2,20}(/[a-z0-9]{2,8})?$")] = "auto"
    """"auto" takes the fastest measured here; a name (onnxruntime, openvino) takes that or fails."""

    deadlines: Deadlines = Deadlines()
    """See there."""

    routing: Routing = Routing()
    """See there."""

    outbox: Outbox = Outbox()
    """See there."""

    answers: Answers = Answers()
    """See there."""

    uplink: Uplink | None = None
    """Without it nothing is escalated: the edge's answers are final."""

    api: Api = Api()
    """See there."""

    sources: tuple[Source, ...] = ()
    """None by default: applications push samples to the API."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """info is a line for each change of state, none for a sample."""

    @model_validator(mode="after")
    def _device_id_fits(self) -> Self:
        try:
            ids.device_id(self.device_id)
        except Malformed as error:
            raise ValueError(str(error)) from error
        return self


def load(path: Path) -> Config:
    """Read a TOML file; relative paths in it are relative to its folder. Raises `Malformed`."""
    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise Malformed(f"{path}: {error.strerror}; name a readable TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"{path}: not TOML: {error}") from error
    try:
        return _rooted(Config.model_validate(tree), path.absolute().parent)
    except ValidationError as error:
        raise Malformed(f"{path}: {'; '.join(map(_finding, error.errors()))}") from error


def _finding(error: object) -> str:
    """One line for one pydantic finding: where, what, and what to do. Never the value: a secret."""
    assert isinstance(error, dict)
    where = ".".join(str(part) for part in error["loc"]) or "file"
    match error["type"]:
        case "extra_forbidden":
            return f"{where}: no such setting; check its spelling or remove it"
        case "missing":
            return f"{where}: is missing; set it"
        case _:
            return f"{where}: {re.sub(r'^Value error, ', '', error['msg'])}"


def _rooted(config: Config, root: Path) -> Config:
    sources = tuple(s.model_copy(update={"path": root / s.path}) for s in config.sources)
    update: dict[str, object] = {
        "state_dir": root / config.state_dir, "bundle": root / config.bundle, "sources": sources
    }  # fmt: skip
    if config.uplink is not None:
        files = {
            "ca": config.uplink.ca,
            "certificate": config.uplink.certificate,
            "key": config.uplink.key,
        }
        rooted = {name: root / file for name, file in files.items() if file is not None}
        update["uplink"] = config.uplink.model_copy(update=rooted)
    return config.model_copy(update=update)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
