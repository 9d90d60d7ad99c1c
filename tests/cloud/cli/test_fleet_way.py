"""Devices, groups, profiles and `apply` against a real fleet, as a person does it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.cli.own_fleet import found, head, run
from tests.cloud.cli.own_registry import hybridge
from tests.cloud.fleet.light import light_devices
from tests.cloud.fleet.servers import FleetProcess, fleet

A, B = "a" * 64, "b" * 64


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetProcess]:
    folder = tmp_path_factory.mktemp("fleet")
    with fleet(folder) as running, light_devices(running.broker, 3, interval_s=5.0):
        seen = found(running, "device", "list")
        after = 0
        while len(seen) < 3:  # each new device is an event: waited for, not asked again and again
            events = running.get(f"/v1/events?after={after}&wait_s=20").json["events"]
            assert events, running.log.read_text()
            after = events[-1]["seq"]
            seen = found(running, "device", "list")
        yield running


def test_status_and_events(region: FleetProcess) -> None:
    state = found(region, "fleet", "status", role="viewer")
    assert (state["devices"], state["online"], state["under_way"]) == (3, 3, [])
    said = run(region, "fleet", "status")
    assert "Rollouts under way: none." in said.out
    lines = run(region, "fleet", "events", "--limit", "2", "-o", "json").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]
    of_one = run(region, "device", "events", "d0001", "-o", "json").out.splitlines()
    assert {json.loads(line)["device"] for line in of_one} == {"d0001"}


def test_a_devices_labels(region: FleetProcess) -> None:
    before = head(region)
    would = found(region, "device", "label", "d0000", "site=lyon", "--dry-run")
    assert would["would_be"] == {"site": "lyon"}
    assert head(region) == before
    labels = found(region, "device", "label", "d0000", "site=lyon", "spare=yes")["labels"]
    assert labels == {"site": "lyon", "spare": "yes"}
    assert found(region, "device", "label", "d0000", "spare-")["labels"] == {"site": "lyon"}
    listed = found(region, "device", "list", "-l", "site=lyon,!spare")
    assert [one["id"] for one in listed] == ["d0000"]
    assert "m 1.0.0" in run(region, "device", "get", "d0000").out
    for wrong, words in (
        ("site", "write NAME=VALUE"), ("=x", "write NAME=VALUE"), ("a=", "write NAME=VALUE"),
    ):  # fmt: skip
        said = run(region, "device", "label", "d0000", wrong)
        assert (said.code, words in said.err) == (1, True)
    assert "named twice" in run(region, "device", "label", "d0000", "a=1", "a-").err


def test_quarantine_release_and_refusals(region: FleetProcess) -> None:
    device = found(region, "device", "quarantine", "d0001", "--for", "2h", "-m", "lens")
    assert device["quarantine"]["why"] == "lens"
    assert device["quarantine"]["until"] - device["quarantine"]["since"] == pytest.approx(7200, 60)
    assert run(region, "device", "release", "d0001", "-m", "clean").code == 0
    assert found(region, "device", "get", "d0001")["quarantine"] is None
    wrong = run(region, "device", "get", "d001")
    assert (wrong.code, "Did you mean 'd0001'" in wrong.err) == (1, True)
    selector = run(region, "device", "list", "-l", "site==")
    assert (selector.code, "selector: at " in selector.err) == (1, True)
    viewer = run(region, "device", "revoke", "d0001", "-m", "stolen", role="viewer")
    assert (viewer.code, "needs the role operator" in viewer.err) == (1, True)
    assert run(region, "device", "quarantine", "d0001", "-m", "x", "--for", "soon").code == 1


def test_a_token_is_shown_once_in_the_command_that_uses_it(region: FleetProcess) -> None:
    made = found(region, "device", "enrol", "new-1", "--label", "site=lyon", "--ttl", "1h")
    token = made["token"]
    url = region.url
    assert made["command"] == (
        f"hybridge-edge enrol --config agent.toml --url {url} --token {token}"
    )
    listed = run(region, "device", "token", "list", "-o", "json").out
    (about,) = [one for one in json.loads(listed) if one["id"] == made["document"]["id"]]
    assert (about["device"], about["labels"], about["used_at"]) == (
        "new-1", {"site": "lyon"}, None,
    )  # fmt: skip
    assert token not in listed
    plain = run(region, "device", "enrol", "--ca", "my ca.pem", "--url", "https://fleet.example")
    assert plain.out.startswith("hybridge-edge enrol --config agent.toml --url https://fleet.ex")
    assert plain.out.rstrip().endswith("--ca 'my ca.pem'")
    before = head(region)
    assert found(region, "device", "enrol", "new-1", "--dry-run")["ttl_s"] == 86_400
    assert head(region) == before
    assert found(region, "device", "token", "revoke", about["id"])["revoked"]


def test_without_a_fleet_or_a_key(region: FleetProcess) -> None:
    none = hybridge("device", "list")
    assert (none.code, "HYBRIDGE_FLEET" in none.err) == (2, True)
    no_key = hybridge("device", "list", "--fleet", region.url)
    assert (no_key.code, "HYBRIDGE_FLEET_KEY" in no_key.err) == (1, True)


def test_a_fleet_that_is_away_is_code_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRIDGE_PATIENCE_S", "0.1")
    away = hybridge("fleet", "status", "--fleet", "http://127.0.0.1:9")
    assert (away.code, "the fleet cannot be reached" in away.err) == (3, True)


def test_a_key_of_the_environment(region: FleetProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRIDGE_FLEET", region.url)
    monkeypatch.setenv("HYBRIDGE_API_KEY", "another-ones")
    monkeypatch.setenv("HYBRIDGE_FLEET_KEY", region.key("viewer"))
    assert hybridge("fleet", "status").code == 0
    monkeypatch.setenv("HYBRIDGE_FLEET_KEY", "two words")
    said = hybridge("fleet", "status")
    assert (said.code, "HYBRIDGE_FLEET_KEY: holds no API key" in said.err) == (1, True)


def test_profiles(region: FleetProcess, tmp_path: Path) -> None:
    file = tmp_path / "camera.toml"
    file.write_text("telemetry_s = 30\n")
    assert found(region, "profile", "push", "cam", "1", file, "--dry-run")["state"] == (
        "would be pushed"
    )
    assert found(region, "profile", "push", "cam", "1", file)["version"] == 1
    assert found(region, "profile", "push", "cam", "1", file, "--dry-run")["state"] == (
        "is there already"
    )
    file.write_text("telemetry_s = 60\n")
    for dry in ((), ("--dry-run",)):
        assert run(region, "profile", "push", "cam", "1", file, *dry).code == 4
    assert found(region, "profile", "push", "cam", "2", file)["version"] == 2
    assert found(region, "profile", "get", "cam")["settings"]["telemetry_s"] == 60
    assert [one["version"] for one in found(region, "profile", "list", "cam")] == [1, 2]
    unknown = run(region, "profile", "get", "cam", "7")
    assert (unknown.code, "versions: 1, 2" in unknown.err) == (1, True)
    file.write_text("telemetri_s = 60\n")
    wrong = run(region, "profile", "push", "cam", "3", file)
    assert (wrong.code, "telemetri_s" in wrong.err) == (1, True)


def test_groups(region: FleetProcess) -> None:
    made = found(region, "group", "set", "paris", "-l", "site=paris", "--priority", "5")
    assert (made["selector"], made["priority"], made["revision"]) == ("site=paris", 5, 1)
    base = found(region, "group", "set", "paris", "--baseline", "m", "1.0.0", "--manifest", A)
    assert base["models"]["m"] == {"version": "1.0.0", "manifest_sha256": A}
    assert base["selector"] == "site=paris"
    before = head(region)
    would = found(region, "group", "set", "paris", "--priority", "6", "--dry-run")
    assert (would["priority"], head(region)) == (6, before)
    wrong = run(region, "group", "set", "paris", "-l", "device/online=true")
    assert wrong.code == 1
    assert [one["name"] for one in found(region, "group", "list")] == ["all", "paris"]
    missing = run(region, "group", "get", "pari")
    assert (missing.code, "Did you mean 'paris'?" in missing.err) == (1, True)
    assert run(region, "group", "delete", "paris", "-m", "closed", "--dry-run").code == 0
    assert run(region, "group", "delete", "paris", "-m", "closed").code == 0
    assert [one["name"] for one in found(region, "group", "list")] == ["all"]


FILE = f"""
groups:
  night: {{selector: "site=night", priority: 7, profile: {{name: dark, version: 1}},
          models: {{m: {{version: 1.0.0, manifest_sha256: {A}}}}}}}
profiles: {{dark: {{1: {{telemetry_s: 5}}}}}}
devices: {{d0002: {{labels: {{site: night}}}}}}
rollouts:
  - {{model: m, version: 1.1.0, manifest_sha256: {B}, group: night, shadow_s: 0, wave_s: 3600}}
"""


def test_a_fleet_as_a_file(region: FleetProcess, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(FILE)
    run(region, "group", "set", "old", "-l", "site=old")
    before = head(region)
    shown = run(region, "apply", "-f", file, "--diff")
    assert shown.code == 2
    assert [line[0] for line in shown.out.splitlines()] == ["+", "+", "~", "+", "+", "+"]
    unanswered = run(region, "apply", "-f", file)
    assert (unanswered.code, "give --yes" in unanswered.err) == (2, True)
    assert head(region) == before
    applied = run(region, "apply", "-f", file, "--yes")
    assert applied.code == 0, applied.err
    assert applied.out == shown.out
    (rollout,) = found(region, "rollout", "list", "--status", "running")
    assert f"watch it: hybridge rollout status {rollout['id']} -w" in applied.err
    group = found(region, "group", "get", "night")
    assert (group["models"]["m"]["version"], group["profile"]["version"]) == ("1.0.0", 1)
    before = head(region)
    for again in ((), ("--diff",)):
        said = run(region, "apply", "-f", file, "--yes", *again)
        assert (said.code, said.out, "nothing to do" in said.err) == (0, "", True)
    assert head(region) == before
    assert run(region, "apply", "-f", file, "--diff", "--prune").out.startswith("- group old")
    pruned = found(region, "apply", "-f", file, "--yes", "--prune")
    assert [one["sign"] for one in pruned["changes"]] == ["-"]
    assert "old" not in [one["name"] for one in found(region, "group", "list")]
    assert run(region, "rollout", "abort", rollout["id"], "-m", "over").code == 0
    stays = run(region, "apply", "-f", file, "--diff")
    assert (stays.code, stays.out[0]) == (0, "!")


def test_a_file_that_cannot_be_applied_changes_nothing(
    region: FleetProcess, tmp_path: Path
) -> None:
    file = tmp_path / "fleet.yaml"
    before = head(region)
    for text, words in (
        ("groups: {x: {selectr: a}}", "line 1: groups.x.selectr: no such member"),
        ("groups: {x: {}}\ndevices: {nobody: {labels: {}}}", "device nobody: is none of this"),
    ):
        file.write_text(text)
        said = run(region, "apply", "-f", file, "--yes")
        assert (said.code, words in said.err) == (1, True), said.err
    assert run(region, "apply", "-f", tmp_path / "none.yaml", "--yes").code == 1
    assert head(region) == before
