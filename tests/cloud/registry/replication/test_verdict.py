import pytest

from cloud.registry.documents import Entry
from cloud.registry.replication.log_answer import LogAnswer
from cloud.registry.replication.verdict import Fits, Forked, Unfit, Verdict, judge
from tests.cloud.registry.replication.chains import answer_of, end_of, grown, promoted

HOME = grown([], 8)
HERE = HOME[:3]


def judged(answer: LogAnswer, *, epoch: int = 1, signed: bool = True) -> Verdict:
    return judge(end_of(HERE), answer, epoch=epoch, signed=signed)


def fault(verdict: Verdict) -> str:
    assert isinstance(verdict, Unfit), verdict
    return verdict.fault


def test_what_continues_the_log_fits():
    assert judged(answer_of(HOME, 3)) == Fits(tuple(HOME[3:]), end_of(HOME), 8)


def test_a_part_of_what_is_missing_fits_and_tells_of_the_rest():
    assert judged(answer_of(HOME, 3, limit=2)) == Fits(tuple(HOME[3:5]), end_of(HOME[:5]), 8)


def test_nothing_new_fits():
    assert judged(answer_of(HERE, 3)) == Fits((), end_of(HERE), 3)


def test_what_nobody_signed_is_refused():
    assert fault(judged(answer_of(HOME, 3), signed=False)) == "unsigned"


def test_a_home_of_a_lower_epoch_is_refused_whoever_signed():
    verdict = judged(answer_of(HOME, 3), epoch=2)
    assert fault(verdict) == "lower_epoch"
    assert "rejoin" in str(verdict)


def test_an_epoch_that_no_root_names_is_refused():
    assert fault(judged(answer_of(promoted(HOME), 3))) == "unknown_epoch"


def test_a_new_home_vouches_for_entries_of_the_epoch_before():
    answer = answer_of(promoted(HOME), 3, limit=2)
    assert isinstance(judged(answer, epoch=2), Fits)


def test_a_gap_before_the_entries_is_refused():
    assert fault(judged(answer_of(HOME, 4))) == "gap"


def test_a_gap_between_the_entries_is_refused():
    answer = answer_of(HOME, 3)
    holed = (*answer.entries[:1], *answer.entries[2:])
    assert fault(judged(answer.model_copy(update={"entries": holed}))) == "broken"


def test_a_head_beyond_the_entries_is_refused():
    answer = answer_of(HOME, 3).model_copy(update={"entries": ()})
    assert fault(judged(answer)) == "gap"
    shorter = answer_of(HOME, 3).model_copy(update={"entries": tuple(HOME[3:6])})
    assert fault(judged(shorter)) == "broken"


def test_an_altered_entry_is_refused():
    entry = HOME[5].model_copy(update={"actor": "mallory"})
    entries = (*HOME[3:5], entry, *HOME[6:])
    answer = answer_of(HOME, 3).model_copy(update={"entries": entries})
    assert fault(judged(answer)) == "broken"


def test_an_epoch_that_begins_without_a_promotion_is_refused():
    entries: list[Entry] = grown(promoted(HERE), 1)[4:]
    lifted = [entry.model_copy(update={"seq": 4}) for entry in entries]
    answer = answer_of(HOME, 3).model_copy(
        update={"entries": tuple(lifted), "head": end_of(lifted)}
    )
    assert fault(judged(answer, epoch=2)) == "broken"


def test_a_home_whose_log_is_shorter_is_not_followed_and_is_no_fork():
    assert fault(judged(answer_of(HOME[:2], 3))) == "behind"


@pytest.mark.parametrize("more", [0, 2])
def test_another_entry_where_this_log_has_its_own_is_a_fork(more):
    other = grown(HOME[:2], 1 + more, "b")
    verdict = judged(answer_of(other, 3))
    assert isinstance(verdict, Forked)
    assert "entry 3" in verdict.why
    assert "rejoin" in verdict.why
