import pytest

from simulations.serve_bench.report import BEGIN, END, block, one_line, replaced
from simulations.serve_bench.results import Mixed, Results, merged
from tests.simulations.serve_bench.found import MACHINE, cells, phase, run


def _results() -> Results:
    measured = cells(
        {
            ("ours", 64): [run(2_400.0)],
            ("mosec", 64): [run(100.0, other_cores=0.2)],
            ("kserve", 64): [run(50.0, failed=1)],
        },
        {"torchserve": "not installed: no\nJava | here"},
    )
    return Results(machine=MACHINE, cells=measured)


def test_the_block_is_written_between_its_markers_and_nothing_else_changes() -> None:
    text = f"# Mine\n{BEGIN}\nold\n{END}\nafter\n"
    new = replaced(text, _results())
    assert new.startswith(f"# Mine\n{BEGIN}\nMachine: a CPU")
    assert new.endswith(f"\n{END}\nafter\n")
    assert "old" not in new
    assert replaced(new, _results()) == new


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_text_without_its_markers_is_left_alone(text: str) -> None:
    with pytest.raises(ValueError, match="markers"):
        replaced(text, _results())


def test_who_was_not_measured_is_named_with_the_reason_on_one_line() -> None:
    assert "Not run: torchserve: not installed: no Java / here" in block(_results())
    assert len(one_line("x" * 1_000)) == 240


def test_a_disturbed_cell_has_a_star_and_one_with_failures_an_exclamation_mark() -> None:
    said = block(_results())
    assert "| 2,400; " in said
    assert "| 100*; " in said
    assert "| 50!; " in said


def test_a_generator_that_was_late_itself_is_told() -> None:
    on_time = Mixed(
        measured_at="today", online_share=0.5, online_per_second=1_000, batch_per_second=100,
        alone=(phase(),), beside=(phase(),),
    )  # fmt: skip
    late = on_time.model_copy(update={"alone": (phase().model_copy(update={"lag_p99_ms": 3.1}),)})
    assert "was late" not in block(Results(machine=MACHINE, mixed=on_time))
    assert "| 3.1* |" in block(Results(machine=MACHINE, mixed=late))


def test_a_run_replaces_the_parts_that_it_measured_and_keeps_the_others() -> None:
    old = _results()
    after = merged(old, MACHINE, [], {"mqtt": "no broker"})
    assert (after.cells, after.failed) == (old.cells, {"mqtt": "no broker"})
    assert "Not run: mqtt: no broker" in block(after)
    assert merged(old, MACHINE, [], {"cells": "no wrk"}).cells is None
