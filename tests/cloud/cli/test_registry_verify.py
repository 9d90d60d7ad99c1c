"""`hybridge registry verify` finds what was changed behind the registry's back."""

import hashlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from cloud.registry.catalog.catalog import Catalog
from cloud.registry.catalog.commands import SetModel
from cloud.registry.documents import Gate
from cloud.registry.store.database import RegistryDatabase
from tests.cloud.cli.own_registry import hybridge


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The settings of a registry with one model and one artifact; it does not run."""
    state = tmp_path / "state"
    state.mkdir()
    database = RegistryDatabase(f"sqlite:///{state / 'catalog.db'}")
    database.open()
    Catalog(database).apply(SetModel("tiny", "vision", Gate()), "somebody", 1.0)
    database.close()
    content = b"an artifact"
    name = hashlib.sha256(content).hexdigest()
    place = state / "artifacts" / "sha256" / name[:2] / name
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    config = tmp_path / "registry.toml"
    config.write_text('state_dir = "state"\n')
    return config


def test_all_is_as_it_was_written(kept: Path) -> None:
    found = hybridge("registry", "verify", "--config", kept, "-o", "json").json
    assert (found["entries"], found["artifacts"], found["corrupt"]) == (1, 1, [])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"vision"', '"others"', "in the tables is not what the log says"),
        ('"owner"', '"over"', "a row was edited into what it cannot be"),
    ],
)
def test_an_edited_table_is_found(kept: Path, old: str, new: str, words: str) -> None:
    with sqlite3.connect(kept.parent / "state" / "catalog.db") as database:
        changed = database.execute(
            "UPDATE registry_models SET document = replace(document, ?, ?)", (old, new)
        )
        assert changed.rowcount == 1
    said = hybridge("registry", "verify", "--config", kept)
    assert (said.code, words in said.err) == (1, True), said


def test_a_flipped_bit_is_found_and_set_aside(kept: Path) -> None:
    (file,) = (kept.parent / "state" / "artifacts" / "sha256").glob("*/*")
    file.chmod(0o600)
    file.write_bytes(b"an artifacT")
    said = hybridge("registry", "verify", "--config", kept)
    assert (said.code, f"set aside: {file.name}" in said.err) == (1, True)
    assert not file.exists()


def test_where_none_has_run_nothing_is_made(kept: Path) -> None:
    shutil.rmtree(kept.parent / "state")
    said = hybridge("registry", "verify", "--config", kept)
    assert (said.code, "no registry has run here" in said.err) == (1, True)
    assert not (kept.parent / "state").exists()
