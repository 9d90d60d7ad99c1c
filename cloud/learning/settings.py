"""Whom the learning process asks."""

from pathlib import Path

from shared.config import Positive
from shared.fetching.settings import Server
from shared.trust.pinned_root import read_pinned_root


class LearningRegistry(Server):
    """The registry. The key needs the roles trainer and approver; operator, too, where it releases."""

    root: Path | None = None
    """The registry's root of trust (`1.root.json`), by which bundles are believed. None: only
    bundles of the `bundles` folders are read."""
    release_key: Path | None = None
    """PEM file of a key that may sign releases of the loops' models. None: a person releases
    (`hybridge model release`), unless `registry_signs`."""
    password_file: Path | None = None
    """Of the release key. None: it has none."""
    registry_signs: bool = False
    """The registry holds a release key itself."""
    release_days: Positive = 365.0
    """For which a release is believed."""

    def read_root(self) -> bytes | None:
        """Blocking. Raises `Malformed`."""
        return None if self.root is None else read_pinned_root(self.root, "registry.root")


class LearningFleet(Server):
    """The fleet's API: rollouts, profiles and drift. The key needs the role operator."""


class Serving(Server):
    """A worker's API, asked by the feature check; of several URLs the first that answers. The key needs
    the role infer.
    """

    timeout_s: Positive = 30.0
    """Of one question of up to `checks.samples` tensors."""
