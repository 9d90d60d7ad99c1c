import pytest

from cloud.registry.catalog import changes as c
from cloud.registry.catalog.chain import EMPTY, entry_after
from cloud.registry.documents import DataSet, Delta, Origin, StoredFile
from cloud.registry.replication.entry_artifacts import artifacts_of
from shared.errors import Malformed


def sha256(number):
    return f"{number:064x}"


def stored(number):
    return StoredFile(path=f"file-{number}", sha256=sha256(number), bytes=number)


def entry(change):
    return entry_after(EMPTY, 1, 1.0, "a", change.kind, change.model_dump(mode="json"))


def test_a_version_needs_its_manifest_and_its_files():
    change = c.Registered(
        model="m", version="1.0.0", manifest=stored(1), files=(stored(2), stored(3)),
        task="classify", card=sha256(3), backbone=None, origin=Origin(), lineage={},
    )  # fmt: skip
    assert artifacts_of([entry(change)]) == {sha256(1): 1, sha256(2): 2, sha256(3): 3}


def test_an_evaluation_needs_its_reports():
    change = c.EvaluationEnded(
        id="0" * 36, model="m", version="1.0.0", state="passed", why="",
        report_json=sha256(4), report_html=sha256(5),
    )  # fmt: skip
    assert artifacts_of([entry(change)]) == {sha256(4): None, sha256(5): None}


def test_data_sets_deltas_and_trust_need_their_files():
    data = DataSet(name="d", version=1, file=stored(6), rows=1, pushed_by="a", pushed_at=1.0)
    delta = Delta(from_sha256=sha256(1), to_sha256=sha256(2), sha256=sha256(7), bytes=9)
    found = artifacts_of([
        entry(c.DataSetAdded(data_set=data)), entry(c.DeltaAdded(delta=delta)),
        entry(c.TrustPublished(role="timestamp", version=1, file=stored(8))),
    ])  # fmt: skip
    assert found == {sha256(6): 6, sha256(7): 9, sha256(8): 8}


def test_other_changes_need_none():
    assert artifacts_of([entry(c.ModelSet(model="m", owner="a", gate=None))]) == {}


def test_an_entry_of_a_newer_program_is_refused_not_passed_over():
    unknown = entry_after(EMPTY, 1, 1.0, "a", "model.renamed", {})
    with pytest.raises(Malformed, match="update"):
        artifacts_of([unknown])
