"""Selectors: what they take, what they refuse and in which words, and how quickly."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.fleet.selector import BUILT_IN, Facts, matches
from cloud.fleet.selector_parser import (
    REQUIREMENTS_MAX,
    TEXT_MAX,
    VALUES_MAX,
    parse,
    parse_for_group,
)
from shared.errors import Malformed

DEVICE = Facts(
    "cam-1", {"site": "lyon", "hw": "pi5"}, "aarch64", frozenset({"onnxruntime", "openvino"}),
    "m", "1.4.0", True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", True),
        ("  ", True),
        ("site=lyon", True),
        ("site==lyon", True),
        ("site=paris", False),
        ("site!=paris", True),
        ("site!=lyon", False),
        ("spare!=yes", True),  # without the label
        ("hw in (jetson, pi5)", True),
        ("hw in (jetson)", False),
        ("hw notin (jetson)", True),
        ("hw notin (pi5,jetson)", False),
        ("spare notin (yes)", True),
        ("spare in (yes)", False),
        ("site", True),
        ("spare", False),
        ("!spare", True),
        ("! site", False),
        ("site=lyon,hw!=jetson,!spare", True),
        ("site=lyon,hw=jetson", False),
        ("in in (in)", False),
        ("!notin", True),
        ("device/id=cam-1", True),
        ("device/id in (cam-2)", False),
        ("device/arch=aarch64", True),
        ("device/arch!=aarch64", False),
        ("device/engine=openvino", True),
        ("device/engine=tensorrt", False),
        ("device/engine!=openvino", False),
        ("device/engine!=tensorrt", True),
        ("device/engine", True),
        ("!device/engine", False),
        ("device/model=m,device/version=1.4.0", True),
        ("device/online=true", True),
        ("device/online=false", False),
        ("device/online!=true", False),
    ],
)
def test_what_a_selector_takes(text, taken):
    assert matches(parse(text), DEVICE) is taken


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_device_that_said_nothing_lacks_what_it_could_have_said(name):
    silent = Facts("cam-1")
    assert matches(parse(f"!{name}"), silent) is (name not in {"device/id", "device/online"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("site=", r"at 6, the end: expected a value of site"),
        ("=lyon", r"at 1, '=': expected a label's name"),
        ("site=lyon,", r"at 11, the end: expected a label's name"),
        (",site", r"at 1, ',': expected a label's name"),
        ("site=lyon hw=pi5", r"at 11, 'hw': expected `,` or the end"),
        ("site=lyon and hw=pi5", r"at 11, 'and': requirements are joined by `,`"),
        ("site=lyon or hw=pi5", r"at 11, 'or': there is no `or`; write `name in \(a,b\)`"),
        ("site=lyon || hw=pi5", r"at 11, '\|\|': there is no `or`"),
        ("site=lyon && hw=pi5", r"at 11, '&&': did you mean `,`"),
        ("site='lyon'", r"at 6, \"'\": values stand without quotes"),
        ("hw inn (a)", r"at 4, 'inn': .*did you mean `in`"),
        ("hw not (a)", r"at 4, 'not': .*did you mean `notin`"),
        ("hw in a", r"at 7, 'a': expected `\(`"),
        ("hw in (a", r"at 9, the end: expected `,` or `\)`: a bracket is still open"),
        ("hw in ()", r"at 8, '\)': expected a value of hw"),
        ("hw in (a b)", r"at 10, 'b': expected `,` or `\)`"),
        ("site)", r"at 5, '\)': nothing opened this bracket"),
        ("device/onlin=true", r"at 1, 'device/onlin': .*did you mean device/online"),
        ("nope/x", r"at 1, 'nope/x': there is no such name"),
        ("device/online=yes", r"at 15, 'yes': device/online is true or false"),
        ("Site=lyon", r"at 1, 'Site': not a label's name"),
        ("site=a/b", r"at 6, 'a/b': not a value"),
        ("site~lyon", r"at 5, '~': did you mean `!`"),
        ("site=lyön", r"at 8, 'ön': not part of a selector"),
        ("site=\x00", r"at 6, '\\x00': not part of a selector"),
    ],
)
def test_a_selector_that_does_not_parse_is_refused_with_the_place(text, words):
    with pytest.raises(Malformed, match=f"^selector: {words}"):
        parse(text)


def test_the_bounds_of_a_selector():
    parse(",".join(f"l{n}" for n in range(REQUIREMENTS_MAX)))
    with pytest.raises(Malformed, match=f"more than {REQUIREMENTS_MAX} requirements"):
        parse(",".join(f"l{n}" for n in range(REQUIREMENTS_MAX + 1)))
    parse(f"a in ({','.join(f'v{n}' for n in range(VALUES_MAX))})")
    with pytest.raises(Malformed, match=f"more than {VALUES_MAX} values"):
        parse(f"a in ({','.join(f'v{n}' for n in range(VALUES_MAX + 1))})")
    with pytest.raises(Malformed, match=f"{TEXT_MAX + 1} characters"):
        parse("a" * (TEXT_MAX + 1))


@pytest.mark.parametrize("name", ["device/online", "device/model", "device/version"])
def test_no_group_is_made_of_what_changes_by_itself(name):
    with pytest.raises(Malformed, match=f"{name} changes by itself"):
        parse_for_group(f"site=lyon,!{name}")
    parse_for_group("site=lyon,device/arch=aarch64,device/engine,device/id!=x")


@given(st.text(alphabet="abin/ot,=!()' \x00é", max_size=40))
def test_any_text_parses_or_is_refused(text):
    try:
        selector = parse(text)
    except Malformed as error:
        assert str(error).startswith("selector: ")  # noqa: PT017
    else:
        assert matches(selector, DEVICE) in {True, False}


def test_a_hundred_thousand_devices_are_matched_in_under_a_second():
    labels = [{"site": site, "hw": hw} for site in ("lyon", "paris") for hw in ("pi5", "jetson")]
    devices = [Facts(f"d{n}", labels[n % 4], "aarch64") for n in range(100_000)]
    test = parse("site=lyon,hw!=jetson,!spare,device/arch=aarch64").test()
    began = time.process_time()
    assert sum(map(test, devices)) == 25_000
    assert time.process_time() - began < 1
