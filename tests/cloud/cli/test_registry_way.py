"""From `hybridge registry init` to a released, fetched, verified bundle, as a person does it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.cli.own_registry import OwnRegistry, hybridge, own_registry
from tests.tiny_bundle import write_tiny_bundle

MODEL = "tiny-edge"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRegistry]:
    with own_registry(tmp_path_factory.mktemp("registry") / "made", evaluates=True) as running:
        running.json(
            "operator", "registry", "keys", "delegate", MODEL, "--to", running.keys / "release.pub",
            "--sign-with", running.keys / "targets.pem",
        )  # fmt: skip
        yield running


@pytest.fixture(scope="module")
def released(registry: OwnRegistry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle's folder: pushed, evaluated, approved, released as 1.0.0."""
    folder = write_tiny_bundle(tmp_path_factory.mktemp("bundle") / "one")
    pushed = registry.json(
        "trainer", "model", "push", folder, "--training-job", "job-7", "--dependency",
        "onnxruntime=1.20", "--wait",
    )  # fmt: skip
    assert (pushed["state"], pushed["origin"]["training_job"]) == ("candidate", "job-7")
    missing = registry.run("viewer", "model", "checklist", MODEL, "1.0.0")
    assert (missing.code, "no approver has approved it" in missing.out) == (1, True)
    early = registry.run("operator", "model", "release", MODEL, "1.0.0", "-m", "early", "--dry-run")
    assert (early.code, "no approver has approved it" in early.out) == (1, True)
    registry.json("approver", "model", "approve", MODEL, "1.0.0", "-m", "looks fine")
    assert registry.json("viewer", "model", "checklist", MODEL, "1.0.0")["ready"]
    found = registry.json(
        "operator", "model", "release", MODEL, "1.0.0", "-m", "first", "--sign-with",
        registry.keys / "release.pem",
    )  # fmt: skip
    assert found["state"] == "released"
    return folder


@pytest.fixture(scope="module")
def second(registry: OwnRegistry, released: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of 1.1.0: pushed and evaluated."""
    folder = tmp_path_factory.mktemp("bundle") / "two"
    write_tiny_bundle(folder, version="1.1.0", scale=13.0)
    registry.json("trainer", "model", "push", folder, "--parent", "1.0.0", "--wait")
    return folder


def test_init_says_where_each_key_belongs(registry: OwnRegistry) -> None:
    text = (registry.keys / "WHERE-EACH-BELONGS.txt").read_text()
    for name in ("root-1.pem", "targets.pem", "release.pem", "online/", "1.root.json", "api/"):
        assert name in text
    for secret in [*registry.keys.rglob("*.pem"), *registry.keys.rglob("*.key")]:
        assert secret.stat().st_mode & 0o077 == 0
    hashes = (registry.folder / "api-keys.jsonl").read_text()
    for key in registry.keys.glob("api/*.key"):
        assert key.read_text().strip() not in hashes


def test_init_never_writes_over_another(registry: OwnRegistry, tmp_path: Path) -> None:
    again = hybridge("registry", "init", registry.folder)
    assert again.code == 4
    assert "is there already" in again.err
    would = hybridge("registry", "init", tmp_path / "new", "--dry-run", "-o", "json")
    assert "keys/targets.pem" in would.out
    assert not (tmp_path / "new").exists()


def test_keys_list(registry: OwnRegistry, released: Path) -> None:
    found = {
        one["role"]: one for one in registry.json("viewer", "registry", "keys", "list")["roles"]
    }
    assert set(found) == {"root", "targets", "snapshot", "timestamp", f"model-{MODEL}"}
    assert (found["root"]["threshold"], len(found["root"]["keys"])) == (2, 3)


def test_list_and_get(registry: OwnRegistry, released: Path) -> None:
    (model,) = [m for m in registry.json("viewer", "model", "list") if m["name"] == MODEL]
    assert model["current"] == "1.0.0"
    assert registry.json("viewer", "model", "list", MODEL)[0]["version"] == "1.0.0"
    assert registry.json("viewer", "model", "get", MODEL)["gate"]["approval"] == "person"
    found = registry.json("viewer", "model", "get", MODEL, "1.0.0")
    assert [launch["comment"] for launch in found["launches"]] == ["first"]
    said = registry.run("viewer", "model", "get", MODEL, "1.0.0").out
    for words in ("looks fine", "job-7", "onnxruntime 1.20", "variants/model.onnx", "accuracy 1"):
        assert words in said


def test_a_push_of_what_is_there_changes_nothing(registry: OwnRegistry, released: Path) -> None:
    before = registry.entries
    again = registry.run("trainer", "model", "push", released)
    assert (again.code, "was registered before" in again.out) == (0, True)
    would = registry.json("trainer", "model", "push", released, "--dry-run")
    assert (would["registered"], would["missing_bytes"]) == (True, 0)
    assert registry.entries == before


def test_a_version_with_other_content_is_a_conflict(
    registry: OwnRegistry, released: Path, tmp_path: Path
) -> None:
    other = write_tiny_bundle(tmp_path / "other", scale=9.0)
    said = registry.run("trainer", "model", "push", other)
    assert said.code == 4
    assert said.out == ""
    assert "versions never change: give this one a new number" in said.err
    assert said.err.count("\n") == 1


def test_diff(registry: OwnRegistry, second: Path) -> None:
    found = registry.json("viewer", "model", "diff", MODEL, "1.0.0", "1.1.0")
    assert "lineage.hyperparameters.scale" in {field["name"] for field in found["fields"]}
    changes = {file["path"]: file["change"] for file in found["files"]}
    assert changes == {
        "variants/model.onnx": "changed", "golden.npz": "changed", "card.md": "same",
    }  # fmt: skip
    assert 0 < found["download_bytes"] < found["full_bytes"]
    assert {figure["metric"] for figure in found["evaluations"]} > {"accuracy", "p95_ms", "parity"}
    said = registry.run("viewer", "model", "diff", MODEL, "1.0.0", "1.1.0").out
    assert f"downloads 3.5 KB ({found['download_bytes']:,} bytes)" in said


def test_history_and_log(registry: OwnRegistry, second: Path) -> None:
    kinds = [e["kind"] for e in registry.json("viewer", "model", "history", MODEL, "1.0.0")]
    assert kinds[0] == "version.released"
    assert "version.approved" in kinds
    said = registry.run("viewer", "registry", "log", "--verify", "--after", "3", "--limit", "2")
    assert [line.split()[0] for line in said.out.splitlines()] == ["4", "5"]
    assert f"the chain holds up to entry {registry.entries}, epoch 1" in said.err


def test_a_release_is_fetched_and_proved_offline(
    registry: OwnRegistry, released: Path, tmp_path: Path
) -> None:
    root = registry.keys / "1.root.json"
    got = registry.json("viewer", "model", "get", MODEL, "1.0.0", "--out", tmp_path / "b.hyb")
    assert got["signature"] == str(tmp_path / "b.sig.json")
    verified = hybridge("model", "verify", tmp_path / "b.hyb", "--root", root)
    assert (verified.code, "release 1, signed by" in verified.out) == (0, True)
    assert registry.run("viewer", "model", "get", MODEL, "--out", tmp_path / "folder").code == 0
    for path in released.rglob("*.*"):
        twin = tmp_path / "folder" / path.relative_to(released)
        assert twin.read_bytes() == path.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "b.hyb", "b.sig.json", "folder", "folder.sig.json",
    ]  # fmt: skip
    again = registry.run("viewer", "model", "get", MODEL, "--out", tmp_path / "folder")
    assert (again.code, "exists already" in again.err) == (1, True)


def test_a_bundle_that_nobody_released_is_not_proved(
    registry: OwnRegistry, second: Path, tmp_path: Path
) -> None:
    root = registry.keys / "1.root.json"
    registry.json("viewer", "model", "get", MODEL, "1.0.0", "--out", tmp_path / "one")
    signature = tmp_path / "one.sig.json"
    said = hybridge("model", "verify", second, "--root", root, "--signature", signature)
    assert (said.code, "the signature is for tiny-edge 1.0.0" in said.err) == (1, True)
    said = hybridge("model", "verify", second, "--root", root)
    assert (said.code, "two.sig.json: cannot read it" in said.err) == (1, True)
    (tmp_path / "one" / "card.md").write_text("other")
    assert hybridge("model", "verify", tmp_path / "one", "--root", root).code == 1
    assert hybridge("model", "verify", second, "--signature", signature).code == 2


def test_dry_runs_say_what_would_happen_and_change_nothing(
    registry: OwnRegistry, second: Path, tmp_path: Path
) -> None:
    before = registry.entries
    third = write_tiny_bundle(tmp_path / "three", version="1.2.0")
    pem, pub = registry.keys / "release.pem", registry.keys / "release.pub"
    targets, root = registry.keys / "targets.pem", registry.keys / "1.root.json"
    for role, words, *command in (
        ("trainer", "would send", "model", "push", third),
        ("trainer", "would queue an evaluation of", "model", "evaluate", MODEL, "1.1.0"),
        ("approver", "would approve", "model", "approve", MODEL, "1.1.0", "-m", "x"),
        ("approver", "make it rejected", "model", "reject", MODEL, "1.1.0", "-m", "x"),
        ("operator", "devices would run what they have", "model", "retire", MODEL, "1.0.0", "-m",
         "x", "--sign-with", pem),
        ("approver", "would be: rules 'f1 >= 0.5'", "model", "gate", MODEL, "--rules", "f1 >= 0.5"),
        ("trainer", "would be: rules", "model", "gate", "new-model", "--rules", "f1 >= 0.5"),
        ("operator", "would remove", "registry", "gc"),
        ("operator", "would hand in", "registry", "keys", "publish", root),
        ("operator", "would hand in targets 3", "registry", "keys", "delegate", "other", "--to",
         pub, "--sign-with", targets),
        ("operator", "would hand in root 2", "registry", "keys", "rotate", "targets", "--to", pub),
        ("operator", "would hand in targets 3", "registry", "keys", "renew", "targets"),
        ("operator", "nothing waits", "registry", "keys", "discard", "targets"),
    ):  # fmt: skip
        said = registry.run(str(role), *command, "--dry-run")
        assert (said.code, words in said.out) == (0, True), (command, said)
    assert registry.entries == before


def test_a_dry_run_refuses_what_would_be_refused(registry: OwnRegistry, second: Path) -> None:
    said = registry.run("approver", "model", "approve", MODEL, "1.0.0", "-m", "x", "--dry-run")
    assert (said.code, "is released; only one that is candidate" in said.err) == (4, True)
    said = registry.run("operator", "model", "delete", MODEL, "1.1.0", "-m", "x", "--dry-run")
    assert (said.code, "is candidate; only one that is" in said.err) == (4, True)


def test_a_rule_that_does_not_parse_is_refused(registry: OwnRegistry, released: Path) -> None:
    before = registry.entries
    said = registry.run("approver", "model", "gate", MODEL, "--rules", "f2 >= 0.5")
    assert said.code == 1
    assert "did you mean" in said.err.lower()
    assert registry.entries == before


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("get", "tiny-edgy"), "Did you mean 'tiny-edge'?"),
        (("get", MODEL, "1.0.1"), "Did you mean 1.0.0"),
        (("diff", MODEL, "1.0.0", "9.0.0"), "1.0.0"),
        (("history", "tiny-egde"), "Did you mean 'tiny-edge'?"),
    ],
)
def test_names_that_are_almost_right_are_suggested(
    registry: OwnRegistry, released: Path, command: tuple[str, ...], words: str
) -> None:
    said = registry.run("viewer", "model", *command)
    assert (said.code, said.out) == (1, "")
    assert words in said.err


def test_who_may_not_is_told_so(registry: OwnRegistry, second: Path) -> None:
    said = registry.run("viewer", "model", "approve", MODEL, "1.1.0", "-m", "x")
    assert (said.code, "approver" in said.err) == (1, True)
    said = hybridge("model", "list", "--registry", registry.url)
    assert (said.code, "give --key-file or HYBRIDGE_API_KEY" in said.err) == (1, True)
    said = hybridge("model", "list")
    assert (said.code, "--registry URL, or HYBRIDGE_REGISTRY" in said.err) == (2, True)


def test_nobody_there_is_exit_code_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRIDGE_PATIENCE_S", "0.01")
    said = hybridge("model", "list", "--registry", "http://127.0.0.1:9")
    assert (said.code, said.out) == (3, "")
    assert "cannot be reached" in said.err
    monkeypatch.setenv("HYBRIDGE_PATIENCE_S", "soon")
    assert hybridge("model", "list", "--registry", "http://127.0.0.1:9").code == 2


def test_a_report_is_fetched(
    registry: OwnRegistry, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # a refusal is not broken in the middle of a word
    page = tmp_path / "new" / "report.html"
    found = registry.json("viewer", "model", "get", MODEL, "1.0.0", "--report", page)
    assert found["bytes"] == page.stat().st_size > 1000
    assert page.read_bytes().startswith(b"<!")
    registry.json("viewer", "model", "get", MODEL, "--report", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["evaluation"]["id"] == found["evaluation"]
    for arguments, code, words in (
        (["--report", tmp_path / "report.txt"], 2, ".html or .json"),
        (["--report", page, "--out", tmp_path / "b"], 2, "one at a time"),
        (["--report", "/dev/null/report.html"], 1, "cannot write it"),
    ):
        refused = registry.run("viewer", "model", "get", MODEL, "1.0.0", *arguments)
        assert (refused.code, words in refused.err) == (code, True), refused.err
