"""What people and tools are shown of the updates."""

from dataclasses import asdict

from pydantic import BaseModel, ConfigDict

from edge.updates.release import Release
from edge.updates.state import Phase, State
from edge.updates.target import Stage, Target


class VersionStatus(BaseModel):
    model_config = ConfigDict(frozen=True)

    version: str
    manifest_sha256: str
    number: int  # 0: the factory bundle

    @classmethod
    def of(cls, release: Release) -> "VersionStatus":
        return cls(
            version=release.version,
            manifest_sha256=release.manifest_sha256,
            number=release.number,
        )


class RefusedStatus(BaseModel):
    model_config = ConfigDict(frozen=True)

    version: str
    number: int
    why: str


class TargetStatus(BaseModel):
    """What the fleet asks for."""

    model_config = ConfigDict(frozen=True)

    generation: int
    version: str
    manifest_sha256: str
    stage: Stage
    attempt: int
    undo: bool
    rollout: str | None

    @classmethod
    def of(cls, target: Target) -> "TargetStatus":
        return cls(**asdict(target))


class UpdateStatus(BaseModel):
    """`model_dump(mode="json")` is the local API's document."""

    model_config = ConfigDict(frozen=True)

    phase: Phase
    why: str
    note: str  # what it waits for at this moment, or what the last look at the registry gave
    active: VersionStatus
    previous: tuple[VersionStatus, ...]  # to go back to, the best first
    candidate: VersionStatus | None
    held_number: int | None  # after a rollback: only a release with a higher number is taken
    refused: tuple[RefusedStatus, ...]
    done_bytes: int  # of the candidate's files
    total_bytes: int
    saved_bytes: int  # that were here already, or came as a delta
    trial_samples: int
    trial_skipped: int
    checked_at: float | None  # Unix seconds of the last good look, by this device's clock
    failures: int  # looks in a row that failed
    follows: bool = False  # the fleet says what to run, and not the newest number
    target: TargetStatus | None = None  # what it says


def status_of(
    state: State,
    *,
    note: str,
    progress: tuple[int, int, int],
    trial: tuple[int, int],
    checked_at: float | None,
    failures: int,
) -> UpdateStatus:
    done, total, saved = progress if state.phase == "downloading" else (0, 0, 0)
    return UpdateStatus(
        phase=state.phase,
        why=state.why,
        note=note,
        active=VersionStatus.of(state.active),
        previous=tuple(map(VersionStatus.of, state.previous)),
        candidate=None if state.candidate is None else VersionStatus.of(state.candidate),
        held_number=state.held_number,
        refused=tuple(
            RefusedStatus(version=r.release.version, number=r.release.number, why=r.why)
            for r in state.refused
        ),
        done_bytes=done,
        total_bytes=total,
        saved_bytes=saved,
        trial_samples=trial[0],
        trial_skipped=trial[1],
        checked_at=checked_at,
        failures=failures,
        follows=state.follows,
        target=None if state.target is None else TargetStatus.of(state.target),
    )
