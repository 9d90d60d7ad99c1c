"""What the fleet wants this device to run: its desired model, as updates see it. Pure."""

from dataclasses import dataclass
from typing import Literal

from edge.updates.release import Release

Stage = Literal["shadow", "live"]


@dataclass(frozen=True, slots=True)
class Target:
    generation: int
    """Rises with every change of mind; lower ones are old."""
    version: str
    manifest_sha256: str
    stage: Stage = "live"
    """shadow: fetch, verify, probe and run it beside the active one, and wait."""
    attempt: int = 1
    """What was refused here under an attempt is tried again under a higher one only."""
    undo: bool = False
    """Go back to it at once, without a trial, when it is still installed."""
    rollout: str | None = None

    def names(self, release: Release | None) -> bool:
        """Whether this is the release, by its version and its bytes."""
        return (
            release is not None
            and release.version == self.version
            and release.manifest_sha256 == self.manifest_sha256
        )

    def same_try(self, other: "Target | None") -> bool:
        """Whether what came of the other still counts."""
        return (
            other is not None
            and self.manifest_sha256 == other.manifest_sha256
            and self.version == other.version
            and self.attempt == other.attempt
        )

    def __str__(self) -> str:
        return f"{self.version} ({self.manifest_sha256[:8]})"
