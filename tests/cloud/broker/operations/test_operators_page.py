"""docs/broker.md says what the code does: its lists are the code's."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from cloud.broker.limits import Limits
from cloud.broker.operations.metrics import exposition
from cloud.broker.operations.sys_topics import DROPPED, ROOT, Loads, step, topics
from cloud.broker.options import parse
from tests.cloud.broker.operations.sample import Figures, busy_status

PAGE = (Path(__file__).parents[4] / "docs" / "broker.md").read_text()


def section(title: str) -> str:
    """Give the text below a heading, up to the next one."""
    (found,) = re.findall(
        rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", PAGE, re.DOTALL | re.MULTILINE
    )
    assert isinstance(found, str)
    return found


def test_every_sys_topic_is_on_the_page_and_no_other() -> None:
    status = busy_status(Figures())
    published = {topic.removeprefix(ROOT) for topic in topics(status, step(Loads(), status))}
    published = {re.sub(r"^(load/.*)/\d+min$", r"\1", topic) for topic in published}
    published = {re.sub(rf"^{DROPPED}.*", f"{DROPPED}REASON", topic) for topic in published}
    named = set(re.findall(r"`([a-z][\w /]*)`", section("`$SYS` topics")))
    assert named - {"load/bytes/sent/1min"} == published


def test_every_metric_is_on_the_page_with_its_help() -> None:
    exposed = re.findall(
        r"^# HELP (hybridge_\w+) (.*)$", exposition(busy_status(Figures())).decode(), re.MULTILINE
    )
    assert (
        re.findall(r"^\| `(hybridge_\w+)` \| (.*) \|$", section("Metrics"), re.MULTILINE) == exposed
    )


def test_every_limit_is_on_the_page_with_its_default() -> None:
    shown = re.findall(r"`(\w+)` = ([\d.]*\d)", section("Limits"))
    assert [(name, float(value)) for name, value in shown] == [
        (one.name, float(one.default)) for one in fields(Limits)
    ]


def test_every_option_on_the_page_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    cli = {"--help", "--config", "--json", "--prefix", "--forget", "--stdin", "--delete"}
    assert set(re.findall(r"--[a-z-]+[a-z]", PAGE)) - cli <= known
