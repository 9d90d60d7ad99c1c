"""Each device is in exactly one group."""

import pytest

from cloud.fleet.documents import Group
from cloud.fleet.grouping import Grouping
from cloud.fleet.selector import Facts
from shared.errors import Malformed

LYON = Facts("a", {"site": "lyon", "hw": "pi5"})


def _group(*groups):
    return Grouping(groups).group_of(LYON)


def test_the_highest_priority_then_the_first_name_then_all():
    site = Group(name="b-site", selector="site=lyon")
    hardware = Group(name="a-hw", selector="hw=pi5")
    other = Group(name="c", selector="site=paris", priority=900)
    assert _group(site, hardware, other) == "a-hw"
    assert _group(site.model_copy(update={"priority": 101}), hardware, other) == "b-site"
    assert _group(other) == "all"
    assert _group() == "all"


def test_all_is_the_last_whatever_its_priority():
    everybody = Group(name="all", priority=1000)
    assert _group(everybody, Group(name="z", selector="site=lyon", priority=0)) == "z"


def test_the_order_in_which_groups_are_given_says_nothing():
    groups = [Group(name=name, selector="site=lyon") for name in ("b", "a", "c")]
    assert {_group(*groups), _group(*reversed(groups))} == {"a"}


def test_a_selector_that_is_none_is_refused():
    with pytest.raises(Malformed, match="selector"):
        Grouping([Group(name="g", selector="site=")])
