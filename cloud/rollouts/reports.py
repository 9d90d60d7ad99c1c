"""What a device says about itself, against what it was ordered: its way through a rollout. Pure.

A device moves by its own word, as long as that word is about this rollout and this attempt, newer
than the last, and does not contradict itself. Failures never reopen within an attempt, but for one:
a silent device that is heard again on the new version was cut off, not broken.
"""

from typing import Final

from cloud.rollouts import collector
from cloud.rollouts.documents import Phase, RolloutStatus
from cloud.rollouts.member import Member
from cloud.rollouts.orders import restore, there_again
from cloud.rollouts.run import Run
from shared.fleet.reported import DevicePhase, ReportedModel, ReportedProfile

CLOCK_AHEAD_S: Final = 300.0
"""By so much a device's clock may be ahead and still be asked which of two reports is later."""
SILENCES_MAX: Final = 3
"""A device that was silent so often does not come back: it is not the network each time."""
RELAPSES_MAX: Final = 3
"""A device that says so often that it is back, and then is not, is named and waited for no more:
two that take turns would keep an undo from its end, and the group from its next rollout.
"""
_UNDER_WAY: Final = {
    DevicePhase.ACCEPTED: Phase.ACCEPTED,
    DevicePhase.DOWNLOADING: Phase.DOWNLOADING,
    DevicePhase.VERIFIED: Phase.VERIFIED,
    DevicePhase.STAGED: Phase.STAGED,
    DevicePhase.TRIAL: Phase.TRIAL,
}
_ENDED: Final = {
    DevicePhase.REJECTED: Phase.REJECTED,
    DevicePhase.FAILED: Phase.FAILED,
    DevicePhase.ROLLED_BACK: Phase.ROLLED_BACK,
}
_OPEN: Final = frozenset(
    {
        Phase.ORDERED, Phase.ACCEPTED, Phase.DOWNLOADING, Phase.VERIFIED, Phase.STAGED,
        Phase.TRIAL, Phase.COMMITTED,
    }
)  # fmt: skip
_ON_IT: Final = frozenset({Phase.COMMITTED, Phase.DONE, Phase.SILENT})


def reported(run: Run, member: Member, report: ReportedModel | ReportedProfile, now: float) -> None:
    if report.sequence <= member.sequence and not _begins_anew(member, report, now):
        return
    named, sha256, words = _runs(run, report)
    if named is None:
        return  # about another model
    run.touch(member)
    member.sequence, member.reported_at = report.sequence, min(report.at, now + CLOCK_AHEAD_S)
    member.runs_new = named and sha256 == run.sha256
    if run.undoing or run.status is RolloutStatus.ROLLED_BACK:
        _going_back(run, member, report, now)
        return
    if not run.active or member.removed or not member.ordered:
        return
    ours = isinstance(report, ReportedProfile) or (
        report.rollout == run.id and report.attempt == member.attempt
    )
    takes_it = member.phase is Phase.QUEUED and isinstance(report, ReportedModel)
    if (takes_it or member.phase is Phase.LEFT) and ours:
        there_again(run, member, now)
    if named and sha256 != run.sha256 and member.phase in _OPEN | _ON_IT:
        run.move(member, Phase.FAILED, now, f"says {run.name}, runs {sha256 or 'nothing'}")
    elif member.phase in _ON_IT and not member.runs_new:
        run.move(member, Phase.ROLLED_BACK, now, f"runs {words} again: {report.why}")
    elif ours and isinstance(report, ReportedModel):
        _model(run, member, report, words, now)
    elif isinstance(report, ReportedProfile):
        _profile(run, member, report, now)


def _begins_anew(member: Member, report: ReportedModel | ReportedProfile, now: float) -> bool:
    """As the fleet's store has it (`cloud/fleet/heard.py`): a device whose disk was made anew."""
    later = member.reported_at < report.at <= now + CLOCK_AHEAD_S
    return report.sequence <= member.sequence and later


def _runs(run: Run, report: ReportedModel | ReportedProfile) -> tuple[bool | None, str | None, str]:
    """Whether it says that it runs the subject (None: it speaks of another one), by which hash, and
    what it runs in words.
    """
    subject = run.spec.subject
    if subject.kind == "model":
        if not isinstance(report, ReportedModel) or report.model != subject.model:
            return None, None, ""
        return report.version == subject.version, report.manifest_sha256, report.version
    if not isinstance(report, ReportedProfile):
        return None, None, ""
    named = report.name == subject.name and report.version == subject.version
    words = f"profile {report.name} {report.version}" if report.name else "no profile"
    return named and report.applied, report.sha256, words


def _model(run: Run, member: Member, report: ReportedModel, words: str, now: float) -> None:
    if member.phase is Phase.SILENT and member.runs_new:
        heard_again(run, member, now)
    if member.phase not in _OPEN:
        return
    if report.phase in _ENDED:
        member.golden = report.golden_failed and report.phase is DevicePhase.REJECTED
        run.evidence.golden += member.golden
        run.move(member, _ENDED[report.phase], now, report.why)
    elif report.phase is DevicePhase.COMMITTED:
        if member.runs_new:
            committed(run, member, now)
        elif member.phase is not Phase.ORDERED:
            run.move(member, Phase.FAILED, now, f"says committed, runs {words}")
    elif report.phase in _UNDER_WAY and member.phase is not Phase.COMMITTED:
        _took(member, now)
        phase = _UNDER_WAY[report.phase]
        if phase is Phase.STAGED and run.now_stage.kind == "shadow":
            run.now_stage.took_at = now
        run.move(member, phase, now, report.why)


def _profile(run: Run, member: Member, report: ReportedProfile, now: float) -> None:
    if member.phase is Phase.SILENT and member.runs_new:
        heard_again(run, member, now)
    if member.phase not in _OPEN:
        return
    if member.runs_new:
        committed(run, member, now)
    elif not report.applied and (report.rollout, report.attempt) in (
        (run.id, member.attempt),
        (None, 0),  # an agent that does not say
    ):
        run.move(member, Phase.REJECTED, now, report.why)


def committed(run: Run, member: Member, now: float) -> None:
    if member.phase is Phase.COMMITTED:
        return
    _took(member, now)
    if run.spec.subject.kind == "profile":
        collector.moved(member)
    run.move(member, Phase.COMMITTED, now)
    run.took(member, now)


def heard_again(run: Run, member: Member, now: float) -> None:
    """On the new version, after a silence: the one failure that reopens."""
    if member.silences > SILENCES_MAX:
        return
    why = f"heard again after {now - member.since:.0f} s of silence"
    run.note("heard_again", f"{member.device}: {why}", member.device)
    run.move(member, Phase.COMMITTED, now, why)


def finish(run: Run, member: Member, now: float) -> None:
    """Done, when it has answered often enough on the new version, and says that it runs it."""
    answered = member.samples - member.failures
    if member.phase is Phase.COMMITTED and member.runs_new and answered >= run.spec.done_samples:
        run.move(member, Phase.DONE, now)


def _took(member: Member, now: float) -> None:
    if member.taken_at is None:
        member.taken_at = now


def _going_back(
    run: Run, member: Member, report: ReportedModel | ReportedProfile, now: float
) -> None:
    """A device is back when it says that the new version neither runs nor comes."""
    coming = isinstance(report, ReportedModel) and (
        report.candidate == run.version or report.phase in _UNDER_WAY
    )
    if member.phase is Phase.UNDOING and not member.runs_new and not coming:
        run.move(member, Phase.UNDONE, now)
    elif (
        member.phase in (Phase.UNDONE, Phase.LEFT, Phase.TIMED_OUT)
        and (member.runs_new or coming)
        and run.undoing
        and not member.removed
        and member.relapses < RELAPSES_MAX
    ):
        member.relapses += 1
        restore(run, member, now)
        run.move(member, Phase.UNDOING, now, "took it after all")
