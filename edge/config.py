"""All the agent's settings: read once, in `__main__`, and passed down as values."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from edge.fleet.settings import FleetSettings
from edge.identity.settings import Identity
from edge.routing.settings import Routing
from edge.sensing.settings import Source
from edge.updates.settings import UpdateSettings
from edge.uplink.settings import Uplink
from shared import ids
from shared.config import Positive, Section, in_words, read_toml
from shared.errors import Malformed
from shared.mqtt.settings import LinkSettings

_MIB = 1024 * 1024


class Deadlines(Section):
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


class Outbox(Section):
    """Escalations on disk that wait for their answer, for at most `deadlines.asynchronous_s`."""

    bytes_max: Annotated[int, Field(gt=0)] = 64 * _MIB
    """Bytes; 64 MiB hold 200,000 small images and fit the smallest flash partitions."""

    rows_max: Annotated[int, Field(gt=0, le=5_000_000)] = 100_000
    """Rows; each takes about 0.3 KiB of memory for its place in the queue, so 30 MiB."""


class Answers(Section):
    """Final answers that are remembered."""

    kept_max: Annotated[int, Field(gt=0)] = 100_000
    """On disk, newest first, about 200 bytes each: 20 MiB."""

    in_memory_max: Annotated[int, Field(gt=0)] = 10_000
    """In memory, about 0.7 KiB each: 7 MiB."""

    stream_max: Annotated[int, Field(gt=0)] = 10_000
    """Answers that one subscriber may lag behind before its stream is closed: one second's worth
    at full speed."""


class Api(Section):
    """The local HTTP API for applications on this device."""

    host: str = "127.0.0.1"
    """Loopback only by default: the API has no password."""

    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """0 takes a free port, printed when the agent is ready."""


class Config(Section):
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

    updates: UpdateSettings | None = None
    """Without it `bundle` runs and nothing else; with it, that is what the device begins with."""

    fleet: FleetSettings | None = None
    """Without it nobody but this file says what runs here; with it `updates` follow the region, and
    `uplink` is needed."""

    identity: Identity | None = None
    """Without it `uplink` names the device's certificate, if it has one; with it `uplink` uses what
    `hybridge-edge enrol` got, and the agent renews it."""

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

    @model_validator(mode="after")
    def _fleet_is_reached(self) -> Self:
        if self.fleet is not None and self.uplink is None:
            raise ValueError("fleet: needs uplink, by which the region is reached; set it")
        return self

    def link_settings(self) -> LinkSettings:
        """Of the uplink, which there must be; with the identity's certificate where it has none."""
        assert self.uplink is not None
        uplink = self.uplink
        if self.identity is not None and uplink.certificate is None and uplink.address().tls:
            from edge.identity.files import identity_paths  # noqa: PLC0415  loads cryptography

            own = identity_paths(self.state_dir)
            files = {"certificate": own.certificate, "key": own.key, "ca": uplink.ca or own.ca}
            uplink = uplink.model_copy(update=files)
        return uplink.link_settings(ids.device_id(self.device_id))


def load(path: Path) -> Config:
    """Read a TOML file; relative paths in it are relative to its folder. Raises `Malformed`."""
    try:
        return _rooted(Config.model_validate(read_toml(path)), path.absolute().parent)
    except ValidationError as error:
        raise Malformed(f"{path}: {in_words(error)}") from error


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
    if config.updates is not None:
        update["updates"] = config.updates.rooted(root)
    if config.identity is not None:
        update["identity"] = config.identity.rooted(root)
    return config.model_copy(update=update)
