"""What holds whatever happens to a cycle, in whatever order."""

from hypothesis import given
from hypothesis import strategies as st

from cloud.feedback.documents import Flooding
from cloud.learning.documents import ENDS, Arrow, Phase
from cloud.learning.loop import events as e
from cloud.learning.loop.machine import step
from cloud.learning.loop.record import CycleRecord
from cloud.registry.documents import State
from cloud.rollouts.documents import RolloutStatus
from cloud.training.documents import JobState
from shared.errors import Conflict
from tests.cloud.learning.loop.cycles import BETTER, GOOD, NOW, THROUGH, begun, data_set, job

_ORDER = (
    Phase.COLLECTING, Phase.DATA_SET, Phase.TRAINING, Phase.EVALUATING, Phase.APPROVING,
    Phase.RELEASING, Phase.ROLLING_OUT, Phase.WATCHING,
)  # fmt: skip
_FLOOD = Flooding(device="camera-9", label=3, rows=40, dropped=260)
_ANSWERS: st.SearchStrategy[e.Answer] = st.one_of(
    st.sampled_from(THROUGH),
    st.builds(
        e.Counted, st.integers(0, 300),
        st.builds(e.Paired, *[st.integers(0, 60)] * 4),
    ),
    st.sampled_from([e.Built(data_set(_FLOOD)), e.Built(data_set(holdout_rows=0))]),
    st.builds(lambda state: e.JobSeen(job(state), GOOD), st.sampled_from(JobState)),
    st.just(e.JobSeen(job(), {})),
    st.builds(
        e.EvaluationSeen, st.just("0198"),
        st.sampled_from(["queued", "running", "passed", "failed", "broken"]),
    ),
    st.builds(e.VersionSeen, st.sampled_from(State), st.booleans()),
    st.builds(e.RolloutSeen, st.one_of(st.none(), st.sampled_from(RolloutStatus)), st.booleans()),
    st.sampled_from([e.RolloutMade(None), e.CleanedUp("done"), e.Refused("no"), e.Away("away")]),
)  # fmt: skip
_FITTING = {
    "count": (e.Counted,), "build": (e.Built,), "choose": (e.Chosen,), "submit": (e.Submitted,),
    "watch_job": (e.JobSeen,), "evaluate": (e.EvaluationSeen,),
    "watch_evaluation": (e.EvaluationSeen,), "approve": (e.VersionSeen,),
    "release": (e.VersionSeen,), "watch_version": (e.VersionSeen,), "roll": (e.RolloutMade,),
    "watch_rollout": (e.RolloutSeen,), "cancel_job": (e.CleanedUp,), "reject": (e.CleanedUp,),
    "undo": (e.CleanedUp,),
}  # fmt: skip
_STEPS = st.lists(
    st.tuples(_ANSWERS, st.sampled_from(["answer", "answer", "answer", "stale", "go", "stop"])),
    max_size=60,
)


def _fits(record: CycleRecord, answer: e.Answer) -> bool:
    """Whether it can be an answer to what the cycle does."""
    if record.doing is None:
        return False
    always = (e.Refused, e.Away)
    return isinstance(answer, (*_FITTING[record.doing.kind], *always))


def _moved(record: CycleRecord, answer: e.Answer, how: str, now: float) -> CycleRecord:
    revision = record.cycle.revision
    match how:
        case "answer" if _fits(record, answer):
            return step(record, e.Answered(revision, answer), now).record
        case "stale":
            assert step(record, e.Answered(revision - 1, answer), now).record is record
        case "go" | "stop":
            try:
                event = e.Go("ann") if how == "go" else e.Stop("ann")
                return step(record, event, now).record
            except Conflict:
                pass
    return record


@given(st.frozensets(st.sampled_from(Arrow)), _STEPS)
def test_a_cycle_never_stands_still_in_silence(
    asks: frozenset[Arrow], steps: list[tuple[e.Answer, str]]
) -> None:
    record, now = begun(asks=asks), NOW
    for answer, how in steps:
        before, now = record, now + 30
        record = _moved(record, answer, how, now)
        cycle = record.cycle
        if before.is_over:
            assert record is before  # ends are ends
            continue
        if record.is_over:
            assert cycle.ended_at == now
            assert record.doing is None
            assert cycle.why
            continue
        assert record.doing is not None or cycle.asks is not None
        assert cycle.asks is None or cycle.waits_for
        assert cycle.revision >= before.cycle.revision
        assert _ORDER.index(cycle.phase) >= _ORDER.index(before.cycle.phase)
        assert CycleRecord.model_validate_json(record.model_dump_json()) == record


_BEHIND = {
    Arrow.DATA_SET: Phase.DATA_SET, Arrow.TRAIN: Phase.TRAINING, Arrow.EVALUATE: Phase.EVALUATING,
    Arrow.ROLLOUT: Phase.ROLLING_OUT, Arrow.WATCH: Phase.WATCHING,
}  # fmt: skip


@given(st.frozensets(st.sampled_from(sorted(_BEHIND))), _STEPS)
def test_nothing_gets_past_an_arrow_that_asks_without_a_go(
    asks: frozenset[Arrow], steps: list[tuple[e.Answer, str]]
) -> None:
    record = begun(asks=asks)
    gone: set[Arrow] = set()
    for answer, how in steps:
        asked = record.cycle.asks
        after = _moved(record, answer, how, NOW + 30)
        if how == "go" and after is not record and asked is not None:
            gone.add(asked)
        record = after
        if record.cycle.phase in ENDS:
            break
        here = _ORDER.index(record.cycle.phase)
        for arrow in asks - gone:
            assert here < _ORDER.index(_BEHIND[arrow])


@given(st.sampled_from(Arrow))
def test_all_good_answers_lead_to_the_end_with_one_go_for_each_question(asks: Arrow) -> None:
    record, goes = begun(asks=frozenset({asks})), 0
    for answer in (*THROUGH, e.Counted(600, BETTER)):
        if record.cycle.asks is not None:
            record, goes = step(record, e.Go("ann"), NOW).record, goes + 1
        if _fits(record, answer):
            record = step(record, e.Answered(record.cycle.revision, answer), NOW).record
    assert goes <= 1
    assert not record.is_over
