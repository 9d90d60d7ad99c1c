"""Whatever the bytes, the verdict is one of ours and comes soon."""

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.registry.trust import edits
from shared.errors import Malformed, Refused, TooLarge, Unavailable
from shared.trust import profile
from shared.trust.names import bytes_max, file_name, parse_file_name, parse_role, parse_target
from shared.trust.store import TrustStore
from shared.trust.walk import Keep, Want, walk
from tests.shared.trust.site import NOW, Site, manifest_of, stored

_SITE = Site()
_SITE.release("fashion", "1.0.0")
_NAMES = ("2.root.json", "timestamp.json", "2.snapshot.json", "2.targets.json",
          "1.model-fashion.json")  # fmt: skip
_ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=20),
    st.just([]), st.just({}), st.just("root"), st.just({"a": [1]}), st.just("\ud800"),
)  # fmt: skip


def _answer(files: dict[str, bytes]) -> None:
    """A walk with these files in the registry's place; raises what it raises."""
    steps = walk(_SITE.files["1.root.json"], {}, "fashion", NOW)
    sent: bytes | None = None
    try:
        while True:
            step = steps.send(sent)
            sent = None if isinstance(step, Keep) else files.get(step.name)
            assert isinstance(step, Keep | Want)
    except StopIteration:
        return


def _places(tree: Any, at: tuple = ()) -> list[tuple]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found = []
    for name, value in children:
        found.append((*at, name))
        if isinstance(value, dict | list):
            found += _places(value, (*at, name))
    return found


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_metadata_with_any_one_value_replaced_is_refused_in_our_words(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(_NAMES))
    source = _SITE.root if name == "2.root.json" else _SITE.files[name]
    tree = copy.deepcopy(json.loads(source))
    place = data.draw(st.sampled_from(_places(tree)))
    holder = tree
    for step in place[:-1]:
        holder = holder[step]
    if data.draw(st.booleans()):
        holder[place[-1]] = data.draw(_ODD)
    elif isinstance(holder, dict):
        del holder[place[-1]]
    try:
        _answer({**_SITE.files, name: json.dumps(tree).encode()})
    except (Refused, Unavailable):
        return


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=300), name=st.sampled_from(_NAMES))
def test_any_bytes_are_refused_in_our_words(content: bytes, name: str) -> None:
    with pytest.raises(Refused):
        _answer({**_SITE.files, name: content})


def test_unknown_members_are_ignored_and_stay_signed() -> None:
    tree = json.loads(_SITE.root)
    tree["signed"]["x-later"] = {"a": [1, "b"]}
    profile.check(json.dumps(tree).encode(), "root", "root")
    with pytest.raises(Refused, match="signed by 0/2"):
        _answer({"2.root.json": json.dumps(tree).encode()})


@pytest.mark.parametrize("role", ["root", "timestamp", "snapshot", "targets", "model-fashion"])
def test_a_file_over_its_roles_bound_is_refused_unread(role: str) -> None:
    with pytest.raises(TooLarge, match=f"metadata of {role} has at most"):
        profile.check(b"[" * (bytes_max(role) + 1), role, role)


def test_a_threshold_that_nobody_can_reach_is_refused() -> None:
    tree = json.loads(_SITE.root)
    tree["signed"]["roles"]["root"]["threshold"] = 4
    with pytest.raises(Malformed, match="threshold 4 of 3 keys"):
        profile.check(json.dumps(tree).encode(), "root", "root")


@pytest.mark.parametrize(
    "name",
    ["timestamp.json", "1.root.json", "12.snapshot.json", "3.targets.json", "7.model-a-b.json"],
)
def test_file_names_are_read_back(name: str) -> None:
    role, version = parse_file_name(name)
    assert file_name(role, version or 0) == name
    assert parse_role(role) == role


@pytest.mark.parametrize(
    "name",
    ["", "root.json", "0.root.json", "01.root.json", "1.timestamp.json", "-1.root.json",
     "1.root.json\n", "1.model-.json", "1.model-../x.json", "1.model-A.json", "a/1.root.json",
     "1.other.json", "9" * 11 + ".root.json", "1.model-" + "a" * 65 + ".json", "x" * 10_000],
)  # fmt: skip
def test_other_file_names_are_refused(name: str) -> None:
    with pytest.raises(Malformed, match="no name of trust metadata"):
        parse_file_name(name)


@pytest.mark.parametrize(
    "path", ["a/1.0.0/manifest.json/", "a/1.0/manifest.json", "a//manifest.json"]
)
def test_other_targets_are_none(path: str) -> None:
    assert parse_target(path) is None


def test_of_a_thousand_models_a_device_reads_its_own(tmp_path: Path) -> None:
    """Bytes are counted: 1,000 models of 10 versions would be 2.2 MB of releases."""
    models = tuple(f"model-number-{number:04}" for number in range(1_000))
    site = Site(models=models)
    first = _ten_releases(models[0])
    site.publish({
        f"model-{model}": edits.sign(
            first.replace(models[0].encode(), model.encode()), f"model-{model}", site.keys["release"]
        )
        for model in models
    })  # fmt: skip
    device = TrustStore(tmp_path, site.files["1.root.json"])
    trusted = asyncio.run(device.refresh(site.fetch, models[500], NOW))
    assert len(trusted.releases) == 10
    fetched = dict(site.fetched)
    assert [name for name in fetched if "model-" in name] == [f"1.model-{models[500]}.json"]
    assert sum(fetched.values()) < 450_000
    site.fetched.clear()
    asyncio.run(device.refresh(site.fetch, models[500], NOW))
    assert sum(size for _, size in site.fetched) < 600


def _ten_releases(model: str) -> bytes:
    """Unsigned; that of another model differs in its name."""
    content = None
    for number in range(10):
        version = f"1.{number}.0"
        content = edits.with_release(
            content, model, version, stored(manifest_of(model, version)), NOW, 365
        )
    assert content is not None
    tree = json.loads(content)
    tree["signed"]["version"] = 1
    return json.dumps(tree).encode()
