import pytest

from simulations.registry_bench.catalog import Operations
from simulations.registry_bench.deltas import Packed
from simulations.registry_bench.replication import Lag
from simulations.registry_bench.report import BEGIN, END, Results, markdown, missed, replaced
from simulations.registry_bench.transfer import Transfer

PUSH = Transfer("push", 200_000_000, 0.7, 1.0, 0.7)
SLOW = Transfer("fetch", 200_000_000, 0.69, 1.0, 0.69)
OURS = Packed("head", "hybridge", 28, 0.028, 0.1, 0.1)
THEIRS = Packed("head", "bsdiff4", 50, 0.05, 9.0, 0.1)
NONE = Results((), (), (), None)


def results(*transfers: Transfer, deltas: tuple[Packed, ...] = ()) -> Results:
    return Results(transfers, deltas, (), None)


def test_each_target_is_the_issue_s() -> None:
    assert missed(results(PUSH)) == []
    assert missed(results(PUSH, SLOW)) == ["fetch: 0.69 x a plain copy, target 0.7"]


@pytest.mark.parametrize(
    ("ours", "theirs", "is_missed"),
    [
        (OURS, THEIRS, False),
        (OURS, Packed("head", "bsdiff4", 27, 0.027, 9.0, 0.1), True),
        (Packed("head", "hybridge", 610, 0.61, 0.1, 0.1), THEIRS, False),  # it is not published
    ],
)
def test_a_delta_that_is_published_is_no_longer_than_bsdiff4s(
    ours: Packed, theirs: Packed, is_missed: bool
) -> None:
    assert bool(missed(results(deltas=(ours, theirs)))) is is_missed


def test_all_that_was_measured_is_in_the_tables() -> None:
    found = Results(
        (PUSH, SLOW), (OURS, THEIRS),
        (
            Operations("SQLite", "register", 1, 123.4),
            Operations("PostgreSQL", "register", 1, 234.5),
        ),
        Lag(1000, 4, 100.0, 20.0, 90.0, 120.0, 0.25, 3.5),
    )  # fmt: skip
    text = markdown(found)
    assert "| push | 0.70 s | 1.00 s | 0.70 | >= 0.7 |" in text
    assert "| fetch | 0.69 s | 1.00 s | 0.69 | >= 0.7, missed |" in text
    assert "| head | 2.8% (0.10) | 5.0% (9.00) |" in text
    assert "| register (1) | 123 | 234 |" in text
    assert "1,000 changes by 4 callers at 100/s; lag p50 20 ms, p99 90 ms" in text


def test_a_page_has_the_block_replaced_and_nothing_else() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = replaced(page, results(PUSH))
    assert "old" not in once
    assert once.startswith(f"before\n{BEGIN}\n")
    assert once.endswith(f"\n{END}\nafter\n")
    assert replaced(once, results(PUSH)) == once
    for broken in ("", BEGIN, f"{END}{BEGIN}", page + page):
        with pytest.raises(ValueError, match="needs the markers"):
            replaced(broken, NONE)
