"""The calibrations of the versions that looked at samples which still wait. Pure."""

from shared.bundle.manifest import Calibration, Manifest

_VERSIONS_MAX = 8


class Calibrations:
    """Of the versions that this process has run, the last `_VERSIONS_MAX`."""

    def __init__(self) -> None:
        self._of: dict[str, Calibration] = {}

    def learn(self, manifest: Manifest) -> None:
        self._of.pop(manifest.version, None)
        self._of[manifest.version] = manifest.calibration
        if len(self._of) > _VERSIONS_MAX:
            del self._of[next(iter(self._of))]

    def of(self, version: str) -> Calibration | None:
        return self._of.get(version)
