"""All of a registry's settings: one TOML file, read once in `__main__`, passed down as values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import StringConstraints, model_validator

from cloud.gateway.settings import GatewaySettings
from cloud.registry.api.settings import RegistryApi
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.catalog.settings import CatalogSettings
from cloud.registry.deltas.settings import DeltaSettings
from cloud.registry.evaluation.settings import EvaluationSettings
from cloud.registry.replication.settings import HomeSettings, PeerSettings
from cloud.registry.settings import Evaluators, Upkeep
from cloud.registry.trust.settings import TrustSettings
from cloud.settings_file import checked, read_settings
from shared.config import Positive, Section
from shared.errors import Malformed

_PATHS = frozenset({
    "state_dir", "key_file", "keys_file", "revoked_file", "online_keys", "password_file", "root",
})  # fmt: skip


class RegistryConfig(Section):
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "registry"
    """This registry's, for people, and for its home where it is a replica."""
    state_dir: Path = Path("hybridge-registry")
    """For the catalog and the artifacts, where they lie in no database and bucket of their own."""
    api: RegistryApi = RegistryApi()
    gateway: GatewaySettings = GatewaySettings()
    catalog: CatalogSettings = CatalogSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    trust: TrustSettings = TrustSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    evaluators: Evaluators = Evaluators()
    deltas: DeltaSettings = DeltaSettings()
    upkeep: Upkeep = Upkeep()
    home: HomeSettings | None = None
    """Whom this registry follows. None: it is home itself."""
    peers: PeerSettings = PeerSettings()
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

    @property
    def catalog_url(self) -> str:
        return self.catalog.url or f"sqlite:///{self.state_dir / 'catalog.db'}"


def load(path: Path, over: Mapping[str, object]) -> RegistryConfig:
    """The file's settings, with those of `over` on top, section by section.

    Paths in the file count from its own folder, those in `over` from the working directory.
    Raises `Malformed` in words.
    """
    return parse(read_settings(RegistryConfig, path, over, _PATHS), str(path))


def parse(tree: Mapping[str, object], where: str) -> RegistryConfig:
    """A tree of settings to a checked one; `where` is what messages call it."""
    return checked(RegistryConfig, tree, where)
