"""A real learning process beside a real registry, on a feedback database with samples in it."""

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from cloud.gateway.api_key import make_key
from cloud.gateway.key_file import KeyLine
from cloud.gateway.roles import Role
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.store import schema as s
from tests.cloud.keyed_process import KeyedProcess
from tests.cloud.registry.pushing import candidate, make_model
from tests.cloud.registry.servers import RegistryProcess
from tests.cloud.registry.trust_keys import TrustKeys

ROLES = (Role.VIEWER, Role.LABELLER, Role.TRAINER, Role.APPROVER, Role.OPERATOR)
EDGE, CLOUD = "tiny-edge", "tiny-cloud"
_LOOKS = "trigger_s = 0.1\nlook_s = 0.05\ncount_s = 0.05\naway_s = 0.2"


class LearningProcess(KeyedProcess):
    """Its loops look often."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        super().__init__("learning", folder, ROLES, settings, {"loops": _LOOKS})
        self.loops_namesake = _with_key(self.folder / "api-keys", "loop", ROLES)
        """A key whose owner has the loop's own name."""

    @property
    def feedback_url(self) -> str:
        return f"sqlite:///{self.state_dir / 'feedback.db'}"

    def end_job(self, job: str, figures: Mapping[str, float], bundle: bytes) -> None:
        """As a worker would, beside the process, in its database and its artifact store."""
        sha256 = hashlib.sha256(bundle).hexdigest()
        FolderBlobs(self.state_dir / "artifacts").put(sha256, bundle)
        engine = sa.create_engine(f"sqlite:///{self.state_dir / 'learning.db'}")
        try:
            with engine.begin() as connection:
                now = time.time()
                connection.execute(
                    sa.update(s.jobs)
                    .where(s.jobs.c.id == job)
                    .values(state="done", ended_at=now, bundle_sha256=sha256)
                )
                connection.execute(sa.insert(s.runs).values(
                    job=job, parameters="{}", code_version="test", machine="test", started_at=now,
                    ended_at=now, figures=json.dumps(dict(figures)),
                ))  # fmt: skip
        finally:
            engine.dispose()


class LoopRegistry(RegistryProcess):
    """With a key for the loop, and a release key of its own."""

    def __init__(self, folder: Path) -> None:
        self.trust = TrustKeys(folder / "trust", releases_online=True)
        super().__init__(folder / "registry", self.trust.settings)
        roles = (Role.TRAINER, Role.APPROVER, Role.OPERATOR)
        key = _with_key(self.folder / "api-keys", "the-loop", roles)
        self.loop_key = folder / "loop-key"
        self.loop_key.touch(0o600)
        self.loop_key.write_text(key)

    def released(self, folder: Path, model: str, version: str, approval: str = "person") -> None:
        """A model with that version as its release."""
        make_model(self, model)
        manifest = candidate(self, folder, version, model)["manifest"]
        metadata = self.trust.release(self, model, version, manifest)
        path = f"/v1/models/{model}/versions/{version}/release"
        done = self.call("POST", path, {"comment": "first", "metadata": metadata})
        assert done.status == 200, done.body
        if approval == "person":
            self._ask_a_person(model)

    def _ask_a_person(self, model: str) -> None:
        gate: dict[str, Any] = {"rules": "parity >= 0", "approval": "person"}
        done = self.call(
            "PUT", f"/v1/models/{model}", {"owner": "vision", "gate": gate}, "approver"
        )
        assert done.status == 200, done.body


def _with_key(file: Path, name: str, roles: tuple[Role, ...]) -> str:
    """One more in a file of keys; its text."""
    key = make_key(secrets.choice)
    line = KeyLine(
        id=key.id, name=name, roles=roles, sha256=key.digest.hex(), created=datetime.now(UTC)
    )
    with file.open("a") as keys:
        keys.write(line.model_dump_json(exclude_none=True) + "\n")
    return key.text
