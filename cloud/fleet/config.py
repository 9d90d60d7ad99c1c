"""All of a fleet's settings: one TOML file, read once in `__main__`, passed down as values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import StringConstraints, model_validator

from cloud.fleet.api.settings import FleetApi
from cloud.fleet.settings import Devices, Driving, FleetBroker, Identity, Ingest, RegistryAsk
from cloud.gateway.settings import GatewaySettings
from cloud.monitoring.drift.settings import DriftSettings
from cloud.settings_file import checked, read_settings
from shared.config import Positive, Section
from shared.errors import Malformed

_PATHS = frozenset({
    "state_dir", "key_file", "keys_file", "revoked_file", "tls_cert", "tls_key", "tls_ca",
    "devices_ca", "ca", "crl", "acl", "broker_pid_file", "api_key_file", "certificate", "key",
})  # fmt: skip


class FleetConfig(Section):
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "fleet"
    """This region's, for people."""
    state_dir: Path = Path("hybridge-fleet")
    """For the store, where it lies in no database of its own."""
    api: FleetApi = FleetApi()
    gateway: GatewaySettings = GatewaySettings()
    broker: FleetBroker = FleetBroker()
    device_broker: Annotated[str, StringConstraints(max_length=300)] | None = None
    """The broker's URL as devices reach it, without user and password; told at enrolment."""
    devices: Devices = Devices()
    ingest: Ingest = Ingest()
    driving: Driving = Driving()
    drift: DriftSettings = DriftSettings()
    registry: RegistryAsk | None = None
    """None: who makes a rollout gives the manifest's hash himself, and drift is looked for without
    the bundles' references: only in accuracy, missing inputs and silence."""
    identity: Identity | None = None
    drain_s: Positive = 30.0
    """From SIGTERM to a forced end; supervisors kill after 90."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _api_is_guarded(self) -> Self:
        try:
            self.gateway.check_exposed(self.api.host)
        except Malformed as error:
            raise ValueError(str(error)) from error
        return self

    @model_validator(mode="after")
    def _revoked_ones_stay_known(self) -> Self:
        kept_s = self.devices.certificates_kept_s
        if self.identity is not None and kept_s < self.identity.grace_days * 86_400:
            raise ValueError(
                f"devices.certificates_kept_s {kept_s:g} is under identity.grace_days "
                f"{self.identity.grace_days:g}: a revoked certificate would be forgotten while it can "
                "still be renewed; raise the one or lower the other"
            )
        return self

    @property
    def store_url(self) -> str:
        return self.devices.url or f"sqlite:///{self.state_dir / 'fleet.db'}"


def load(path: Path, over: Mapping[str, object]) -> FleetConfig:
    """The file's settings, with those of `over` on top, section by section.

    Paths in the file count from its own folder, those in `over` from the working directory.
    Raises `Malformed` in words.
    """
    return parse(read_settings(FleetConfig, path, over, _PATHS), str(path))


def parse(tree: Mapping[str, object], where: str) -> FleetConfig:
    """A tree of settings to a checked one; `where` is what messages call it."""
    return checked(FleetConfig, tree, where)
