"""What a device says that does not tell the truth, or does not tell it once and in order. Pure."""

from random import Random

from shared.fleet.desired import DesiredModel
from shared.fleet.reported import DevicePhase, ReportedModel
from shared.fleet.telemetry import Tally, Telemetry
from simulations.fleet.nature import Nature

_FUTURE_S = 10 * 365 * 86_400.0


def lying_reports(
    nature: Nature,
    report: ReportedModel,
    before: ReportedModel | None,
    desired: DesiredModel | None,
) -> list[ReportedModel]:
    """In the order in which they are sent."""
    match nature.lie:
        case "version" if desired is not None and desired.stage == "live":
            claims = {
                "phase": DevicePhase.COMMITTED,
                "version": desired.version,
                # every other one is clumsy: it forgets that the hash has to fit
                "manifest_sha256": desired.manifest_sha256
                if report.sequence % 2
                else report.manifest_sha256,
                "generation": desired.generation,
                "rollout": desired.rollout,
                "attempt": desired.attempt,
                "candidate": None,
                "why": "",
            }
            return [report.model_copy(update=claims)]
        case "future":
            return [report.model_copy(update={"at": report.at + _FUTURE_S})]
        case "flood" | "repeat":
            return [report] * (5 if nature.lie == "flood" else 2)
        case "reorder" if before is not None:
            return [report, before]
        case _:
            return [report]


def lying_telemetry(
    nature: Nature,
    said: Telemetry,
    before: Telemetry | None,
    desired: DesiredModel | None,
    rng: Random,
) -> list[Telemetry]:
    """In the order in which they are sent."""
    match nature.lie:
        case "version" if desired is not None and desired.stage == "live":
            return [said.model_copy(update={"tally": _claimed(said.tally, desired.version)})]
        case "future":
            ahead = {"at": said.at + _FUTURE_S, "sequence": said.sequence + 2**40}
            return [said.model_copy(update=ahead if rng.random() < 0.5 else {})]
        case "flood":
            return [
                said.model_copy(
                    update={
                        "sequence": said.sequence * 10 + number,
                        "tally": _times(said.tally, 1000 * (number + 1)),
                    }
                )
                for number in range(10)
            ]
        case "repeat":
            return [said, said]
        case "reorder" if before is not None:
            return [said, before]
        case _:
            return [said]


def _claimed(tally: Tally, version: str) -> Tally:
    return tally.model_copy(update={"version": version})


def _times(tally: Tally, factor: int) -> Tally:
    counts = (
        "samples", "escalated", "audited", "answered", "disagreed", "audit_answered",
        "audit_disagreed",
    )  # fmt: skip
    return tally.model_copy(update={name: getattr(tally, name) * factor for name in counts})
