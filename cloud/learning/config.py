"""All of a learning process's settings: one TOML file, read once in `__main__`, passed down as values.

The sections `training`, `artifacts` and `worker` are read by `hybridge-cloud train-worker`, too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from cloud.feedback.settings import FeedbackSettings
from cloud.gateway.settings import GatewaySettings
from cloud.learning.api.settings import LearningApi
from cloud.learning.feature_checking import FeatureChecks
from cloud.learning.loop.settings import Loops
from cloud.learning.refitting import Refits
from cloud.learning.settings import LearningFleet, LearningRegistry, Serving
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.settings_file import checked, read_settings
from cloud.training.queue.settings import Training
from cloud.training.worker.config import PATHS as WORKER_PATHS
from cloud.training.worker.settings import TrainWorker
from shared.bundle.manifest import Name
from shared.config import Positive, Section
from shared.errors import Malformed

_PATHS = WORKER_PATHS | {
    "key_file", "keys_file", "revoked_file", "release_key", "password_file",
}  # fmt: skip


class LearningConfig(Section):
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "learning"
    """This region's, for people."""
    state_dir: Path = Path("hybridge-learning")
    """For the learning database and the files of data sets and bundles, where these lie nowhere
    else."""
    api: LearningApi = LearningApi()
    gateway: GatewaySettings = GatewaySettings()
    feedback: FeedbackSettings = FeedbackSettings()
    training: Training = Training()
    artifacts: ArtifactSettings = ArtifactSettings()
    worker: TrainWorker = TrainWorker()
    """Of `hybridge-cloud train-worker`; this process reads its `bundles` folders alone."""
    registry: LearningRegistry | None = None
    """None: no loop gets beyond its data set."""
    fleet: LearningFleet | None = None
    """None: no drift, no sites, no rollouts: devices take what the registry releases."""
    serving: Serving | None = None
    """None: the feature check compares with stored answers alone."""
    models: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    """Edge models whose payloads are to be read, beside those that have a loop."""
    loops: Loops = Loops()
    refits: Refits = Refits()
    checks: FeatureChecks = FeatureChecks()
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
    def feedback_url(self) -> str:
        return self.feedback.url or f"sqlite:///{self.state_dir / 'feedback.db'}"

    @property
    def training_url(self) -> str:
        return self.training.url or f"sqlite:///{self.state_dir / 'learning.db'}"


def load(path: Path, over: Mapping[str, object]) -> LearningConfig:
    """The file's settings, with those of `over` on top, section by section.

    Paths in the file count from its own folder, those in `over` from the working directory.
    Raises `Malformed` in words.
    """
    tree = read_settings(LearningConfig, path, over, _PATHS)
    worker = tree.get("worker")
    if isinstance(worker, dict) and isinstance(worker.get("bundles"), list):
        worker["bundles"] = [str(path.parent / str(one)) for one in worker["bundles"]]
    return parse(tree, str(path))


def parse(tree: Mapping[str, object], where: str) -> LearningConfig:
    """A tree of settings to a checked one; `where` is what messages call it."""
    return checked(LearningConfig, tree, where)
