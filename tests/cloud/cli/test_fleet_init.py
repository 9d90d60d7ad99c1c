"""`hybridge fleet init|renew`: what a region begins with."""

from pathlib import Path

import pytest

from cloud.cli.fleet_init import ROLES
from cloud.fleet.config import load
from cloud.gateway.key_file import parse
from tests.cloud.cli.own_registry import hybridge

HOST = ("--host", "mqtt.lyon.example", "--host", "127.0.0.1")


def test_a_region_is_made_once_and_its_fleet_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "lyon"
    would = hybridge("fleet", "init", folder, *HOST, "--name", "lyon", "--dry-run")
    assert (would.code, folder.exists()) == (0, False)
    made = hybridge("fleet", "init", folder, *HOST, "--name", "lyon", "-o", "json")
    files = [Path(one) for one in made.json["files"]]
    assert all(one.is_file() for one in files)
    assert "hybridge-cloud fleet --config" in made.err
    assert load(folder / "fleet.toml", {}).name == "lyon"
    hashes = (folder / "keys.jsonl").read_text()
    lines = parse(hashes, "keys")
    assert sorted(str(role) for one in lines.values() for role in one.roles) == sorted(ROLES)
    for role in ROLES:
        key = folder / "keys" / f"{role}.key"
        assert key.read_text().strip() not in hashes
        assert key.stat().st_mode & 0o077 == 0
    for dry in ((), ("--dry-run",)):
        again = hybridge("fleet", "init", folder, *HOST, *dry)
        assert (again.code, "exists already" in again.err) == (4, True)


def test_renewed_certificates_are_others_of_the_same_ca(tmp_path: Path) -> None:
    assert hybridge("fleet", "init", tmp_path / "r", *HOST).code == 0
    server, ca = tmp_path / "r" / "tls" / "server.pem", tmp_path / "r" / "services-ca"
    before = server.read_text(), {one: one.read_bytes() for one in ca.glob("*.pem")}
    assert hybridge("fleet", "renew", tmp_path / "r", *HOST, "--dry-run").code == 0
    assert server.read_text() == before[0]
    assert hybridge("fleet", "renew", tmp_path / "r", *HOST).code == 0
    assert server.read_text() != before[0]
    assert {one: one.read_bytes() for one in ca.glob("*.pem")} == before[1]


@pytest.mark.parametrize("wrong", [("--host", "a b"), ("--host", "mqtt:8883"), ()])
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_host_that_is_none_is_refused(
    tmp_path: Path, wrong: tuple[str, ...], dry: tuple[str, ...]
) -> None:
    said = hybridge("fleet", "init", tmp_path / "x", *wrong, *dry)
    assert said.code == (1 if wrong else 2)
    assert not (tmp_path / "x").exists()
