"""Dictionaries of payloads that the feedback store knows, up to a bound, and what is beyond it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.learning import known
from cloud.learning.known import KnownDictionaries
from cloud.learning.models import Models
from cloud.learning.store.loops import MIGRATIONS, LoopStore
from cloud.learning.store.settings import LoopsKept
from cloud.training.store.database import LearningDatabase
from tests.tiny_bundle import write_tiny_bundle


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[LoopStore]:
    database = LearningDatabase(f"sqlite:///{tmp_path / 'learning.db'}")
    database.open(MIGRATIONS)
    yield LoopStore(database, LoopsKept())
    database.close()


def test_a_dictionary_that_is_one_too_many_is_named_once(
    loops: LoopStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(known, "_DICTIONARIES_MAX", 1)
    for number in range(2):
        write_tiny_bundle(
            tmp_path / "bundles" / str(number), version=f"1.0.{number}", codec="zstd",
            dictionary=bytes([number]) * 100,
        )  # fmt: skip
    models = Models((tmp_path / "bundles",), None, tmp_path / "state")
    dictionaries = KnownDictionaries(models, None, loops, ())
    for _ in range(2):
        asyncio.run(dictionaries.look())
    assert dictionaries.dictionaries() == (bytes(100),)
    (said,) = [one for one in caplog.records if one.getMessage() == "dictionary_left_out"]
    assert said.__dict__["bundle"] == "tiny-edge 1.0.1"
