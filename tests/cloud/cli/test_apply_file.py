"""`fleet.yaml`: what is read of it, and what is refused in which line."""

import re
from pathlib import Path

import pytest

from cloud.cli.apply_file import BYTES_MAX, read
from shared.errors import Malformed, TooLarge

GOOD = """\
groups:
  lyon: {selector: site=lyon, priority: 10, profile: {name: camera, version: 3}}
profiles:
  camera:
    3: {threshold: strict, telemetry_s: 30}
devices:
  cam-1: {labels: {site: lyon}}
rollouts:
  - model: fashion-edge
    version: 1.4.0
    group: lyon
    canary: 0.05
    criteria: ["disagreement <= 0.1"]
  - {profile: camera, version: 3, selector: site=lyon}
"""


def test_what_a_file_says() -> None:
    found = read(GOOD.encode(), "fleet.yaml")
    assert found.groups["lyon"].priority == 10
    assert found.profiles["camera"][3].telemetry_s == 30
    assert found.devices["cam-1"].labels == {"site": "lyon"}
    model, profile = (one.members for one in found.rollouts)
    assert model == {
        "subject": {"kind": "model", "model": "fashion-edge", "version": "1.4.0"},
        "group": "lyon", "seed": "1.4.0-fashion-edge", "canary": 0.05,
        "criteria": ["disagreement <= 0.1"],
    }  # fmt: skip
    assert profile["subject"] == {"kind": "profile", "name": "camera", "version": 3}
    assert (profile["group"], profile["seed"]) == ("all", "3-camera")


def test_an_empty_file_declares_nothing() -> None:
    for text in ("", "# nothing\n", "groups: {}\n"):
        assert read(text.encode(), "f").groups == {}


def test_the_pages_example_is_read() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    found = read(example.encode(), "cli.md")
    assert (len(found.groups), len(found.rollouts)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "instead", "words"),
    [
        ("priority: 10", "prioritty: 10", "line 2: groups.lyon.prioritty: no such member"),
        ("priority: 10", "priority: 1001", "line 2: groups.lyon.priority: "),
        ("site=lyon, ", "site==, ", "line 2: groups.lyon.selector: selector: at "),
        ("selector: site=lyon, ", "selector: device/online=true, ", "line 2: groups.lyon.selector"),
        ("3: {thr", "x: {thr", "line 5: profiles.camera.x: "),
        ("telemetry_s: 30", "telemetry: 30", "line 5: profiles.camera.3.telemetry: no such member"),
        ("cam-1", "cam 1", "line 7: devices.cam 1: "),
        ("labels: {site: lyon}", "labels: {site: 5}", "line 7: devices.cam-1.labels.site: "),
        ("labels: {site: lyon}", "{}", "line 7: "),
        ("1.4.0", "1.4", "line 10: rollouts.0.version: write it in quotes"),
        ("1.4.0", "2024-01-01", "line 10: rollouts.0.version: "),
        ("1.4.0", "true", "line 10: rollouts.0.version: write it in quotes"),
        ("    version: 1.4.0\n", "", "line 9: rollouts.0.version: is missing"),
        ("canary: 0.05", "canary: 5", "line 12: rollouts.0.canary: "),
        ("canary: 0.05", "canry: 5", "line 12: rollouts.0.canry: no such member"),
        ("canary: 0.05", "settings: {}", "rollouts.0: settings: no such member"),
        ("canary: 0.05", "subject: {}", "line 9: rollouts.0: subject: no such member"),
        ("disagreement <=", "disagrement <=", "line 13: rollouts.0.criteria: criterion "),
        ("selector: site=lyon}", "selector: '=='}", "line 14: rollouts.1.selector: selector: at 1"),
        ("{profile: camera,", "{profile: camera, model: m,", "line 14: rollouts.1: names model or"),
        ("{profile: camera, version: 3", "{profile: camera, version: '3'", "rollouts.1: version: a"),
        ("devices:", "groups:", "line 6: 'groups' stands twice"),
        ("canary: 0.05", "canary: [", "line 14: is not YAML: "),
        ("devices:", "x: &a {}\nxs: [*a]\ndevices:", "line 6: YAML anchors are not read"),
        ("devices:", "<<: {}\ndevices:", "line 6: this is no member's name"),
        ("devices:", "[a]: {}\ndevices:", "line 6: this is no member's name"),
        ("devices:", "!!python/name:os.system x: 1\ndevices:", "line 6: "),
        ("devices:", "\x00devices:", "is not YAML: "),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_line(text: str, instead: str, words: str) -> None:
    assert text in GOOD
    with pytest.raises(Malformed) as refused:
        read(GOOD.replace(text, instead, 1).encode(), "fleet.yaml")
    assert str(refused.value).startswith("fleet.yaml")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00", b"[]", b"just words", b"groups: []", b"- 1", b"groups: {lyon: }",
        b"[" * 5000, b"{a: " * 5000, b"a: &x [*x]", b"groups: !!set {a}", b"--- a\n--- b",
        b"groups: " + b"9" * 5000, b"groups: 2024-99-99", b"groups: !!int x", b"groups: !!binary '%'",
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_refused(content: bytes) -> None:
    with pytest.raises(Malformed, match="f"):
        read(content, "f")


def test_a_file_that_grows_when_it_is_read_is_refused_before_it_does() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for one, before in zip("bcdefghij", "abcdefghi", strict=True):
        lines.append(f"{one}: &{one} [{','.join([f'*{before}'] * 9)}]")
    with pytest.raises(Malformed, match="anchors are not read"):
        read("\n".join(lines).encode(), "f")


def test_a_file_that_is_too_large_is_not_parsed() -> None:
    with pytest.raises(TooLarge, match=f"at most {BYTES_MAX}"):
        read(b"#" * (BYTES_MAX + 1), "f")


def test_of_many_mistakes_the_first_are_told() -> None:
    text = "devices:\n" + "".join(f"  'cam {n}': {{labels: {{}}}}\n" for n in range(50))
    with pytest.raises(Malformed, match="and 40 more") as refused:
        read(text.encode(), "f")
    assert "line 2: " in str(refused.value)
