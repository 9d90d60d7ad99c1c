"""Keys of trust for a registry process, and what their holders do with them."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cloud.registry.documents import StoredFile
from cloud.registry.trust import edits
from cloud.registry.trust.ceremony import initialise
from cloud.registry.trust.edits import Holders
from cloud.registry.trust.keys import load_public, load_signer
from shared.trust.names import model_role
from tests.cloud.registry.servers import RegistryProcess

DAYS = 100.0


class TrustKeys:
    """`settings` go into the process's configuration; `publish` once it runs.

    `releases_online`: the registry has the release key, so that it may release by itself.
    """

    def __init__(self, folder: Path, *, releases_online: bool = False) -> None:
        self.folder = folder
        self.ceremony = initialise(folder, datetime.now(UTC))
        if releases_online:
            shutil.copy(folder / "release.pem", self.ceremony.online / "release.pem")
        self.settings = f'[trust]\nonline_keys = "{self.ceremony.online}"\n'

    def publish(self, registry: RegistryProcess, *models: str) -> None:
        """The first root and targets, then targets that delegate these models."""
        for role, content in (("root", self.ceremony.root), ("targets", self.ceremony.targets)):
            self._hand_in(registry, role, content)
        if models:
            self.delegate(registry, *models)

    def delegate(self, registry: RegistryProcess, *models: str) -> None:
        holder = Holders((load_public(self.folder / "release.pub"),))
        before = self._newest(registry, "targets")
        assert before is not None
        after = edits.with_delegation(
            before, dict.fromkeys(models, holder), datetime.now(UTC), DAYS
        )
        signer = load_signer(self.folder / "targets.pem", None)
        self._hand_in(registry, "targets", edits.sign(after, "targets", [signer]))

    def release(
        self, registry: RegistryProcess, model: str, version: str, manifest: dict[str, Any]
    ) -> Any:
        """The model's role, signed, with this version as its newest; `manifest` as the API gives it."""
        role, file = model_role(model), StoredFile.model_validate(manifest)
        before = self._newest(registry, role)
        after = edits.with_release(
            before, model, version, file, datetime.now(UTC), DAYS, gone=_retired(registry, model)
        )
        return self._signed(after, role)

    def retirement(self, registry: RegistryProcess, model: str, version: str) -> Any:
        role = model_role(model)
        before = self._newest(registry, role)
        assert before is not None
        after = edits.without_release(
            before, model, version, datetime.now(UTC), DAYS, gone=_retired(registry, model)
        )
        return self._signed(after, role)

    def signed(self, content: bytes, model: str) -> Any:
        """The model's role as somebody wrote it, with the release key's signature."""
        return self._signed(content, model_role(model))

    def _signed(self, content: bytes, role: str) -> Any:
        return json.loads(
            edits.sign(content, role, [load_signer(self.folder / "release.pem", None)])
        )

    def _newest(self, registry: RegistryProcess, role: str) -> bytes | None:
        for one in registry.get("/v1/trust").json["roles"]:
            if one["role"] == role:
                return registry.get(f"/tuf/{one['version']}.{role}.json", "fetch").body
        return None

    def _hand_in(self, registry: RegistryProcess, role: str, content: bytes) -> None:
        reply = registry.call("POST", f"/v1/trust/{role}", {"metadata": json.loads(content)})
        assert reply.status == 200, reply.body


def _retired(registry: RegistryProcess, model: str) -> set[str]:
    found = registry.get(f"/v1/models/{model}/versions").json["versions"]
    return {one["version"] for one in found if one["state"] == "retired"}
