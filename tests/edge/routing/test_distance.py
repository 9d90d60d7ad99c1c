"""Distance: of samples of the reference none, bias and all; of others, the index."""

from itertools import accumulate

import numpy as np
import pytest

from edge.routing.distance import Distance
from edge.routing.rare import rare_cells, uncommon_cells
from edge.telemetry.sketching import Feature
from shared.bundle.manifest import Sketch


def feature(*counts: int, first: int = 3) -> Feature:
    edges = tuple(map(float, range(len(counts) - 1)))
    return Feature(Sketch(feature="input_std", edges=edges, counts=counts), first)


def moment(*counts: int, first: int = 3) -> list[int]:
    return list(accumulate([7] * first + list(counts) + [9], initial=0))


EVEN = feature(5, 45, *[250] * 15, *[200] * 2, 45, 5)
NOTHING = moment(*[0] * 21)


def test_of_counts_as_in_the_reference_it_is_what_chance_takes_off() -> None:
    groups = 7
    later = moment(1, 9, *[50] * 15, 40, 40, 9, 1)
    assert Distance(EVEN).between(NOTHING, later, 32) == pytest.approx(-(groups - 1) / 850, rel=0.2)


def test_chance_gives_none_on_average() -> None:
    rng = np.random.default_rng(5)
    shares = np.array(EVEN.sketch.counts) / sum(EVEN.sketch.counts)
    drawn = [rng.multinomial(64, shares).tolist() for _ in range(2_000)]
    found = [Distance(EVEN).between(NOTHING, moment(*counts), 32) for counts in drawn]
    assert abs(np.mean(found)) < 0.01
    assert max(found) < 0.75, "or a device would be watchful by chance"


def test_it_is_the_index_of_what_was_counted_between_the_two() -> None:
    even = feature(100, 100, 100, 100)
    later = moment(*(40 + n for n in (0, 0, 32, 32)))
    # Of chi-squared: sum((observed - expected)^2 / expected) / n = 1, less 3 / 64.
    found = Distance(even).between(moment(40, 40, 40, 40), later, 32)
    assert found == pytest.approx(1 - 3 / 64)
    assert Distance(even).between(moment(40, 40, 40, 40), later, 65) == 0.0


@pytest.mark.parametrize(
    "counts", [(0, 0, 0), (0, 4_000, 1), (100, 0), (0, 7)], ids=str
)  # no samples; one value; one bin
def test_a_feature_of_one_group_says_nothing(counts: tuple[int, ...]) -> None:
    distance = Distance(feature(*counts))
    assert not distance.says_something
    assert distance.between(moment(0, 0, 0), moment(5, 50, 9), 1) == 0.0


def test_a_tail_of_empty_bins_belongs_to_the_last_group() -> None:
    distance = Distance(feature(50, 50, 0, 0))
    later = moment(16, 16, 16, 16)
    assert distance.between(moment(0, 0, 0, 0), later, 1) == pytest.approx(0.25 - 1 / 64)


def test_outermost_bins_are_rare_where_the_reference_can_show_it() -> None:
    of_5000 = feature(3, 22, 400, 4_150, 400, 22, 3)
    assert rare_cells([of_5000]) == {3, 9}
    assert uncommon_cells([of_5000]) == {3, 4, 8, 9}
    assert rare_cells([feature(0, 4_999, 1)]) == {3, 5}
    assert rare_cells([feature(0, 100, 0)]) == frozenset(), "too few to show it"
    assert rare_cells([feature(20, 4_960, 20)]) == frozenset()
    assert uncommon_cells([feature(20, 4_960, 20)]) == {3, 5}
    assert rare_cells([feature(0, 0)]) == frozenset()
    both = rare_cells([feature(0, 9_999, first=0), feature(5_000, 0, first=2)])
    assert both == {0, 3}
