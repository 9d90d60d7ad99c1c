"""What leaves at once, what waits, and in which order."""

from cloud.broker.connection.output import Output
from cloud.broker.session.messages import Commit


def woken() -> tuple[Output, list[None]]:
    calls: list[None] = []
    return Output(lambda: calls.append(None)), calls


def test_an_answer_waits_for_its_promise_and_those_behind_it_wait_too() -> None:
    output, calls = woken()
    commit = Commit(1)
    output.answer(b"1", commit, is_publish=True)
    output.answer(b"2", None, is_publish=True)
    output.put(b"ping")
    assert (output.take(), len(output), output.publishes_waiting) == ([b"ping"], 2, 2)
    assert not output.is_ready
    commit.holds = True
    for wake in commit.waiting:
        wake()
    assert calls
    assert output.is_ready
    assert (output.take(), output.publishes_waiting) == ([b"1", b"2"], 0)


def test_nothing_follows_a_good_bye() -> None:
    output, _ = woken()
    kept, lost = Commit(1), Commit(2)
    output.answer(b"1", kept)
    output.answer(b"2", lost)
    kept.holds = True
    output.put_last(b"bye")
    lost.holds = True
    assert output.take() == [b"1", b"bye"]
    assert output.take() == []


def test_nothing_goes_before_a_connack_that_waits() -> None:
    output, _ = woken()
    commit = Commit(1)
    output.open(b"connack", commit)
    output.put(b"pingresp")
    assert not output.is_open
    assert output.take() == []
    commit.holds = True
    assert output.take() == [b"connack", b"pingresp"]
    assert output.is_open
    output.put(b"pingresp")
    assert output.take() == [b"pingresp"]


def test_no_good_bye_goes_without_a_connack() -> None:
    output, _ = woken()
    output.open(b"connack", Commit(1))
    output.put_last(b"disconnect")
    assert output.take() == []
