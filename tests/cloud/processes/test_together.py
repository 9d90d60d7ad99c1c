from cloud.api.schemas import Status
from cloud.processes.siblings import Said, merged_metrics
from cloud.processes.together import merged_status

OWN = Status(
    name="worker-0", ready=True, not_ready_because=None, broker=None, in_hand=1, store_up=True,
    busy_share=0.2, queue_depth=3, p99_ms=4.0, models=(),
)  # fmt: skip


def _said(index: int, **changes: object) -> Said:
    return Said(index, 200, OWN.model_copy(update=changes).model_dump_json().encode())


def test_sums_and_the_worst_of_all_processes() -> None:
    said = [_said(1, in_hand=2, busy_share=0.9, queue_depth=5, p99_ms=9.0), _said(2, p99_ms=None)]

    status = merged_status(OWN, said)

    assert (status.processes, status.ready) == (3, True)
    assert (status.in_hand, status.queue_depth) == (4, 11)
    assert (status.busy_share, status.p99_ms) == (0.9, 9.0)


def test_one_that_is_not_ready_speaks_for_all() -> None:
    said = [_said(1, ready=False, not_ready_because="models are loading", store_up=False)]

    status = merged_status(OWN, said)

    assert (status.ready, status.not_ready_because) == (False, "models are loading")
    assert not status.store_up


def test_one_that_does_not_answer_is_told() -> None:
    status = merged_status(OWN, [Said(1, 0, b"")])

    assert (status.ready, status.not_ready_because) == (
        False, "a serving process does not answer"
    )  # fmt: skip
    assert status.processes == 2


def test_metrics_of_several_processes_are_told_apart() -> None:
    text = b'# HELP a_total A.\n# TYPE a_total counter\na_total{x="1"} 2.0\n'

    merged = merged_metrics({0: text, 1: text.replace(b"2.0", b"3.0")}).decode()

    assert merged.count("# TYPE a_total counter") == 1
    assert 'a_total{process="0",x="1"} 2.0' in merged
    assert 'a_total{process="1",x="1"} 3.0' in merged
