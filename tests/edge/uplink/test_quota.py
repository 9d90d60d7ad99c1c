from hypothesis import given
from hypothesis import strategies as st

from edge.journal.rows import Waiting
from edge.uplink.quota import Quota
from tests.edge.samples import sample, waiting

ROWS = st.lists(
    st.tuples(st.floats(0, 1), st.booleans(), st.integers(1, 500), st.integers(0, 100)), max_size=60
).map(
    lambda rows: [
        waiting(n, confidence=c, audit=a, size=size, deadline_s=float(d))
        for n, (c, a, size, d) in enumerate(rows)
    ]
)


def test_audits_leave_before_escalations_and_the_most_confident_escalation_first() -> None:
    quota = Quota(bytes_max=1200, rows_max=100)
    rows = [
        waiting(1, confidence=0.3), waiting(2, confidence=0.99, audit=True),
        waiting(3, confidence=0.7),
    ]  # fmt: skip
    assert [quota.admit(row) for row in rows] == [[], [], []]
    assert [r.id for r in quota.admit(waiting(4, confidence=0.5))] == [sample(2)]
    assert [r.id for r in quota.admit(waiting(5, confidence=0.4))] == [sample(3)]
    assert [r.id for r in quota.admit(waiting(6, confidence=0.9))] == [sample(6)]
    assert quota.bytes == 1200


def test_rows_are_bounded_too() -> None:
    quota = Quota(bytes_max=10**9, rows_max=1)
    assert quota.admit(waiting(1, confidence=0.5)) == []
    assert [r.id for r in quota.admit(waiting(2, confidence=0.4))] == [sample(1)]
    assert len(quota) == 1


def test_a_row_expires_at_its_deadline_and_not_before() -> None:
    quota = Quota(10**9, 100)
    quota.admit(waiting(1, deadline_s=10.0))
    quota.admit(waiting(2, deadline_s=5.0))
    assert quota.expires_at() == 5.0
    assert quota.expire(4.999) == []
    assert [r.id for r in quota.expire(5.0)] == [sample(2)]
    assert quota.expires_at() == 10.0


@given(ROWS, st.integers(1, 2000), st.integers(1, 20))
def test_it_never_holds_more_than_it_may_and_keeps_the_least_confident(
    rows: list[Waiting], bytes_max: int, rows_max: int
) -> None:
    quota, inside = Quota(bytes_max, rows_max), dict[object, Waiting]()
    for row in rows:
        inside[row.id] = row
        out = quota.admit(row)
        for gone in out:
            del inside[gone.id]
        assert quota.bytes == sum(r.bytes for r in inside.values()) <= bytes_max
        assert len(quota) == len(inside) <= rows_max
        for gone in out:
            assert all(
                (gone.audit, gone.confidence) >= (kept.audit, kept.confidence)
                for kept in inside.values()
            )
