"""Whether a process hangs, floods or takes too long, on a clock of the test's."""

import pytest

from cloud.training.child_messages import Failed, Said
from cloud.training.worker.watch import Astray, Bounds, Watch

BOUNDS = Bounds(start_s=100.0, silence_s=10.0, work_s=50.0, lines_per_s_max=2)
LINE = Said(text="hello").model_dump_json().encode() + b"\n"


def test_before_its_first_word_it_has_longer():
    watch = Watch(BOUNDS, 0.0)
    assert watch.silent_at() == 100.0
    assert "after its start" in watch.why_silent()
    watch.read(LINE, 5.0)
    assert watch.silent_at() == 15.0
    assert "said nothing for 10 s" in watch.why_silent()


def test_a_look_is_due_before_what_may_change_meanwhile():
    assert Watch(BOUNDS, 0.0).look_at(0.0) == 10.0


def test_waiting_for_a_core_is_neither_work_nor_silence():
    watch = Watch(BOUNDS, 0.0)
    watch.read(LINE, 0.0)
    watch.waited(30.0)
    assert (watch.silent_at(), watch.spent_at()) == (40.0, 80.0)


def test_a_flood_is_no_burst():
    watch = Watch(BOUNDS, 0.0)
    for _ in range(20):
        watch.read(LINE, 1.0)
    with pytest.raises(Astray, match="more than 2 lines a second"):
        watch.read(LINE, 1.0)
    watch.read(LINE, 2.0)


def test_lines_of_both_pipes_are_one_flood():
    watch = Watch(BOUNDS, 0.0)
    for _ in range(10):
        watch.read(LINE, 1.0)
        assert watch.may_say(1.0)
    assert not watch.may_say(1.0)
    with pytest.raises(Astray, match="more than 2 lines a second"):
        watch.read(LINE, 1.0)


@pytest.mark.parametrize("step", ["-1", str(2**63), "9" * 400])
def test_a_step_that_no_database_takes_is_no_message(step):
    line = f'{{"kind": "measured", "step": {step}, "progress": 0.5, "values": {{"loss": 1}}}}\n'
    with pytest.raises(Astray, match="no message"):
        Watch(BOUNDS, 0.0).read(line.encode(), 0.0)


def test_control_characters_are_replaced_in_what_it_says():
    line = b'{"kind": "failed", "reason": "b\\u0000d", "words": "a\\u001b[2Jb\\tc\\nd"}\n'
    found = Watch(BOUNDS, 0.0).read(line, 0.0)
    assert isinstance(found, Failed)
    assert (found.reason, found.words) == ("b\ufffdd", "a\ufffd[2Jb\tc\nd")


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b'{"kind": "made"}\n', b"\xff\n", b"NaN\n"])
def test_what_is_no_message_is_named(line):
    with pytest.raises(Astray, match="no message"):
        Watch(BOUNDS, 0.0).read(line, 0.0)
