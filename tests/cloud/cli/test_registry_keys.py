"""Keys change hands, releases are taken back, versions end: against a real registry process."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cloud.registry.client.client import RegistryClient
from cloud.registry.documents import Runner
from tests.cloud.cli.own_registry import OwnRegistry, hybridge, own_registry
from tests.cloud.registry.pushing import end_evaluation
from tests.tiny_bundle import sure_image, write_tiny_bundle

MODEL = "tiny-edge"
RULE = ("--rules", "parity >= 0", "--approval", "rule")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRegistry]:
    with own_registry(tmp_path_factory.mktemp("registry") / "made", evaluates=False) as running:
        yield running


@pytest.fixture(scope="module")
def candidate(registry: OwnRegistry, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A version that may be released by a rule alone."""
    folder = write_tiny_bundle(tmp_path_factory.mktemp("bundle") / "one")
    registry.json("approver", "model", "gate", MODEL, *RULE)
    registry.json("trainer", "model", "push", folder)
    end_evaluation(registry, MODEL)
    return "1.0.0"


def create(folder: Path, name: str) -> tuple[Path, Path]:
    """A private key's file and its public one's."""
    made = hybridge("registry", "keys", "create", folder / f"{name}.pem", "-o", "json").json
    return Path(made["private"]), Path(made["public"])


def keys_of(registry: OwnRegistry, role: str) -> tuple[int, int, int]:
    """A role's version, keys and threshold."""
    roles = registry.json("viewer", "registry", "keys", "list")["roles"]
    (found,) = (one for one in roles if one["role"] == role)
    return found["version"], len(found["keys"]), found["threshold"]


def test_a_key_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "k.pem"
    would = hybridge("registry", "keys", "create", file, "--dry-run")
    assert (would.code, file.exists()) == (0, False)
    create(tmp_path, "k")
    content = file.read_bytes()
    again = hybridge("registry", "keys", "create", file)
    assert (again.code, file.read_bytes() == content) == (4, True)
    monkeypatch.setenv("HYBRIDGE_KEY_PASSWORD", "a long one")
    hybridge("registry", "keys", "create", tmp_path / "p.pem")
    assert b"ENCRYPTED" in (tmp_path / "p.pem").read_bytes()


def test_a_model_that_nobody_may_release_says_how(registry: OwnRegistry, candidate: str) -> None:
    said = registry.run(
        "operator", "model", "release", MODEL, candidate, "-m", "first", "--sign-with",
        registry.keys / "release.pem",
    )  # fmt: skip
    assert said.code == 1
    assert f"hybridge registry keys delegate {MODEL} --to" in said.err


def test_two_sign_a_release_one_after_the_other(
    registry: OwnRegistry, candidate: str, tmp_path: Path
) -> None:
    (one, one_pub), (two, two_pub) = create(tmp_path, "one"), create(tmp_path, "two")
    registry.json(
        "operator", "registry", "keys", "delegate", MODEL, "--to", one_pub, "--to", two_pub,
        "--threshold", "2", "--sign-with", registry.keys / "targets.pem",
    )  # fmt: skip
    release = ("model", "release", MODEL, candidate, "-m", "first")
    alone = registry.run("operator", *release, "--sign-with", one)
    assert (alone.code, "waits for signatures" in alone.err) == (4, True)
    registry.json("operator", "registry", "keys", "discard", f"model-{MODEL}")
    saved = registry.json("operator", *release, "--sign-with", one, "--save", tmp_path / "draft")
    file = tmp_path / "draft" / f"1.model-{MODEL}.json"
    assert saved == {"saved": str(file)}
    signed = hybridge("registry", "keys", "sign", file, "--sign-with", two, "-o", "json").json
    assert len(signed["signed"]) == 2
    found = registry.json("operator", *release, "--metadata", file)
    assert found["state"] == "released"
    both = registry.run("operator", *release, "--metadata", file, "--sign-with", one)
    assert (both.code, "sent as it is" in both.err) == (2, True)


def test_a_release_is_taken_back(registry: OwnRegistry, tmp_path: Path) -> None:
    name, release = "retired-model", registry.keys / "release.pem"
    registry.json("approver", "model", "gate", name, *RULE)
    registry.json(
        "operator", "registry", "keys", "delegate", name, "--to", registry.keys / "release.pub",
        "--sign-with", registry.keys / "targets.pem",
    )  # fmt: skip
    folder = write_tiny_bundle(tmp_path / "b", name=name)
    registry.json("trainer", "model", "push", folder)
    end_evaluation(registry, name)
    say = ("-m", "a word", "--sign-with", release)
    registry.json("operator", "model", "release", name, "1.0.0", *say)
    found = registry.json("operator", "model", "retire", name, "1.0.0", *say)
    assert found["state"] == "retired"
    assert registry.json("viewer", "model", "get", name)["current"] is None


def test_the_targets_key_changes_hands(registry: OwnRegistry, tmp_path: Path) -> None:
    new, new_pub = create(tmp_path, "targets")
    roots = [registry.keys / f"root-{number}.pem" for number in (1, 3)]
    before = keys_of(registry, "root")
    one = registry.run(
        "operator",
        "registry",
        "keys",
        "rotate",
        "targets",
        "--to",
        new_pub,
        "--sign-with",
        roots[0],
    )
    assert one.code == 0
    assert "nothing is published yet" in one.out
    assert "root 2 waits: " in one.err
    registry.json("operator", "registry", "keys", "discard", "root")
    handed_in = registry.json(
        "operator", "registry", "keys", "rotate", "targets", "--to", new_pub, "--sign-with",
        roots[0], "--sign-with", roots[1],
    )  # fmt: skip
    assert handed_in["published"] == {}  # until the new key has signed the targets
    answer = registry.json("operator", "registry", "keys", "renew", "targets", "--sign-with", new)
    assert {"root", "targets"} <= set(answer["published"])
    assert keys_of(registry, "root")[0] == before[0] + 1
    refused = registry.run(
        "operator", "registry", "keys", "renew", "targets", "--sign-with",
        registry.keys / "targets.pem",
    )  # fmt: skip
    assert refused.code == 1
    assert "may not sign for targets" in refused.err


def test_the_root_keys_change_by_files_that_travel(registry: OwnRegistry, tmp_path: Path) -> None:
    (new, new_pub), draft = create(tmp_path, "root"), tmp_path / "draft"
    version, count, threshold = keys_of(registry, "root")
    assert (count, threshold) == (3, 2)
    pubs = [new_pub, registry.keys / "root-2.pub"]
    saved = registry.json(
        "operator", "registry", "keys", "rotate", "root", "--to", pubs[0], "--to", pubs[1],
        "--threshold", "2", "--save", draft,
    )  # fmt: skip
    file = Path(saved["saved"])
    assert file.name == f"{version + 1}.root.json"
    for key in (registry.keys / "root-1.pem", registry.keys / "root-2.pem", new):
        assert hybridge("registry", "keys", "sign", file, "--sign-with", key).code == 0
    answer = registry.json("operator", "registry", "keys", "publish", file)
    assert answer["published"]["root"] == version + 1
    assert keys_of(registry, "root") == (version + 1, 2, 2)


def test_a_rejected_version_is_deleted_and_its_number_stays_taken(
    registry: OwnRegistry, tmp_path: Path
) -> None:
    name = "other-model"
    folder = write_tiny_bundle(tmp_path / "b", name=name)
    registry.json("trainer", "model", "push", folder)
    early = registry.run("operator", "model", "delete", name, "1.0.0", "-m", "x")
    assert early.code == 4
    gone = registry.json("approver", "model", "reject", name, "1.0.0", "-m", "not this one")
    assert (gone["state"], "not this one" in gone["why"]) == ("rejected", True)
    deleted = registry.json("operator", "model", "delete", name, "1.0.0", "-m", "no use")
    assert deleted["deleted"] is True
    again = registry.run("trainer", "model", "push", folder)
    assert (again.code, again.out) == (4, "")
    assert "its number stays taken" in again.err


def test_data_sets(registry: OwnRegistry, tmp_path: Path) -> None:
    images = np.stack([sure_image(label) for label in (0, 1, 2)])
    np.savez(tmp_path / "d.npz", inputs=images, labels=np.array([0, 1, 2], np.int64))
    would = registry.json("trainer", "data-set", "push", "faces", tmp_path / "d.npz", "--dry-run")
    assert would["missing_bytes"] == would["bytes"] > 0
    assert registry.json("viewer", "data-set", "list") == []
    for _ in range(2):  # the same again is no new version
        added = registry.json("trainer", "data-set", "push", "faces", tmp_path / "d.npz")
        assert (added["version"], added["rows"]) == (1, 3)
    np.savez(tmp_path / "e.npz", inputs=images[:2], labels=np.array([0, 1], np.int64))
    assert registry.json("trainer", "data-set", "push", "faces", tmp_path / "e.npz")["version"] == 2
    assert "faces" in registry.run("viewer", "data-set", "list").out
    (tmp_path / "f.npz").write_bytes(b"PK no zip")
    bad = registry.run("trainer", "data-set", "push", "faces", tmp_path / "f.npz")
    assert (bad.code, bad.out) == (1, "")
    assert len(registry.json("viewer", "data-set", "list")) == 2


def test_gc_and_replicas(registry: OwnRegistry) -> None:
    found = registry.json("operator", "registry", "gc", "--dry-run")
    assert (found["dry_run"], found["kept"] > 0) == (True, True)
    assert registry.json("operator", "registry", "gc")["dry_run"] is False
    assert registry.json("viewer", "registry", "replicas") == []
    refused = registry.run("viewer", "registry", "gc")
    assert (refused.code, "operator" in refused.err) == (1, True)


def test_who_runs_what(registry: OwnRegistry, candidate: str) -> None:
    assert registry.json("viewer", "registry", "runners") == []

    async def report() -> None:
        key = (registry.keys / "api" / "fetch.key").read_text().strip()
        async with RegistryClient([registry.url], key) as device:
            await device.report_runner(
                Runner(
                    name="gate-7", model=MODEL, version=candidate, variant="onnxruntime/fp32",
                    seen_at=0.0,
                )
            )  # fmt: skip

    asyncio.run(report())
    (found,) = registry.json("viewer", "registry", "runners", MODEL)
    assert (found["name"], found["version"], found["state"]) == ("gate-7", candidate, "active")
    assert registry.json("viewer", "registry", "runners", "other-model") == []
    assert "gate-7" in registry.run("viewer", "registry", "runners").out


def test_a_home_is_not_promoted(registry: OwnRegistry) -> None:
    said = hybridge(
        "registry", "promote", "--config", registry.folder / "registry.toml", "--root-key",
        registry.keys / "root-1.pem", "-m", "a try", "--dry-run",
    )  # fmt: skip
    assert (said.code, "home already" in said.err) == (4, True)
