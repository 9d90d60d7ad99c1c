"""Which bundle a start opens, with real files and a state that may be damaged."""

import shutil
from pathlib import Path

import pytest

from edge.updates import state_file
from edge.updates.folders import Folders, factory_release
from edge.updates.release import Release
from edge.updates.start import open_active
from edge.updates.state import State, first_state
from shared.bundle.reader import open_bundle
from shared.errors import Malformed, Unavailable
from tests.tiny_bundle import write_tiny_bundle


class Setup:
    """Version 3 is active, 2 and 1 are kept."""

    def __init__(self, root: Path) -> None:
        self.state_dir, self.factory = root / "state", write_tiny_bundle(root / "factory")
        self.folders = Folders(self.state_dir, self.factory)
        self.releases = [self._install(root, number) for number in (1, 2, 3)]
        one, two, three = self.releases
        self.save(State("tiny-edge", three, (two, one)))

    def _install(self, root: Path, number: int) -> Release:
        made = write_tiny_bundle(root / f"made-{number}", version=f"{number}.5.0")
        there = factory_release(open_bundle(made))
        release = Release(there.version, there.manifest_sha256, there.manifest_bytes, number)
        shutil.copytree(made, self.folders.of(release))
        return release

    def save(self, state: State) -> None:
        state_file.save(self.folders.root, state)

    @property
    def state(self) -> State:
        found = state_file.load(self.folders.root)
        assert found is not None
        return found

    def spoil(self, number: int, file: str = "golden.npz") -> None:
        path = self.folders.of(self.releases[number - 1]) / file
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    def start(self) -> str:
        return open_active(self.state_dir, self.factory, open_bundle).manifest.version


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def test_the_active_version_is_opened(setup: Setup) -> None:
    assert setup.start() == "3.5.0"


def test_without_a_state_the_factory_bundle_is(tmp_path: Path) -> None:
    factory = write_tiny_bundle(tmp_path / "factory")
    assert open_active(tmp_path / "state", factory, lambda path: path) == factory


def test_damaged_versions_are_passed_over_one_after_the_other(setup: Setup) -> None:
    for number, next_one in ((3, "2.5.0"), (2, "1.5.0"), (1, "1.0.0")):
        setup.spoil(number)
        assert setup.start() == next_one
        assert "fell back" in setup.state.why
    assert not any(setup.folders.of(release).exists() for release in setup.releases)


def test_another_valid_bundle_in_its_place_is_not_opened(setup: Setup, tmp_path: Path) -> None:
    place = setup.folders.of(setup.releases[2])
    shutil.rmtree(place)
    write_tiny_bundle(place, version="3.5.0", shift=1)  # whole, but never signed
    assert setup.start() == "2.5.0"


def test_a_version_that_no_engine_takes_is_passed_over_and_refused(setup: Setup) -> None:
    def opener(path: Path) -> Path:
        if path == setup.folders.of(setup.releases[2]):
            raise Malformed("no engine takes it")
        return path

    opened = open_active(setup.state_dir, setup.factory, opener)
    assert opened == setup.folders.of(setup.releases[1])
    assert setup.state.active == setup.releases[1]


@pytest.mark.parametrize(
    ("broken", "opened"), [(("3.5.0",), "1.0.0"), (("3.5.0", "1.0.0"), "2.5.0")]
)
def test_the_factory_bundle_that_ran_last_goes_before_a_version_that_was_undone(
    setup: Setup, broken: tuple[str, ...], opened: str
) -> None:
    _, undone, new = setup.releases
    home = factory_release(open_bundle(setup.factory))
    setup.save(State("tiny-edge", new, (home, undone)))

    def opener(path: Path) -> str:
        version = open_bundle(path).manifest.version
        if version in broken:
            raise Malformed("it does not open")
        return version

    assert open_active(setup.state_dir, setup.factory, opener) == opened
    assert setup.state.active.version == opened


def test_the_factory_bundle_must_open(setup: Setup) -> None:
    def opener(path: Path) -> Path:
        raise Unavailable("no engine here")

    with pytest.raises(Unavailable):
        open_active(setup.state_dir, setup.factory, opener)


def test_a_state_with_a_flipped_bit_is_not_believed_and_the_one_before_is(setup: Setup) -> None:
    one, two, three = setup.releases
    setup.save(State("tiny-edge", two, (one, three)))
    path = setup.folders.root / "state.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"2.5.0", b"1.5.0", 1))
    assert setup.start() == "3.5.0"


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 10_000, b"\0" * 500_000, b'{"format": 1}'])
def test_without_a_state_that_can_be_believed_the_factory_bundle_is(
    setup: Setup, content: bytes
) -> None:
    for name in ("state.json", "state.before.json"):
        (setup.folders.root / name).write_bytes(content)
    assert setup.start() == "1.0.0"


def test_a_factory_bundle_of_another_model_ends_the_updates_of_the_old_one(setup: Setup) -> None:
    shutil.rmtree(setup.factory)
    write_tiny_bundle(setup.factory, name="other", version="7.0.0")
    assert setup.start() == "7.0.0"


def test_a_factory_bundle_that_was_replaced_is_taken_where_it_is_active(setup: Setup) -> None:
    setup.save(first_state("tiny-edge", factory_release(open_bundle(setup.factory))))
    shutil.rmtree(setup.factory)
    write_tiny_bundle(setup.factory, version="1.1.0")
    assert setup.start() == "1.1.0"
    assert setup.state.phase == "idle"


def test_pruning_keeps_what_the_state_names(setup: Setup) -> None:
    (setup.folders.root / "staging/left-over").mkdir(parents=True)
    (setup.folders.root / "versions/old").mkdir()
    (setup.folders.root / "versions/stray").write_bytes(b"x")
    setup.folders.prune(setup.state)
    assert not list((setup.folders.root / "staging").iterdir())
    kept = {path.name for path in (setup.folders.root / "versions").iterdir()}
    assert kept == {release.folder for release in setup.releases}
