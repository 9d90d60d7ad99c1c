"""Trust metadata over HTTP: fetched by name, handed in, waited for, made fresh."""

import json
from datetime import UTC, datetime
from pathlib import Path

from cloud.gateway.roles import Role
from cloud.registry.trust import edits
from cloud.registry.trust.keys import load_signer
from tests.cloud.keyed_process import until
from tests.cloud.registry.servers import RegistryProcess
from tests.cloud.registry.trust_keys import TrustKeys


def test_files_by_their_names(running: RegistryProcess, trust_keys: TrustKeys) -> None:
    first = running.get("/tuf/1.root.json", Role.FETCH)
    assert (first.status, first.body) == (200, trust_keys.ceremony.root)
    assert first.headers["cache-control"] == "max-age=86400"
    again = running.get("/tuf/1.root.json", Role.FETCH, If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    timestamp = running.get("/tuf/timestamp.json", Role.FETCH)
    assert (timestamp.status, timestamp.headers["cache-control"]) == (200, "no-cache")
    for name in ("root.json", "1.timestamp.json", "0.root.json", "1.other.json", "x"):
        assert running.get(f"/tuf/{name}", Role.FETCH).status == 400, name


def test_no_newer_root_is_an_answer_and_no_refusal_to_note(running: RegistryProcess) -> None:
    path = "/tuf/77.root.json"
    reply = running.get(path, Role.FETCH)
    assert (reply.status, reply.json["type"].rsplit(":")[-1]) == (404, "unknown")
    assert reply.json["instance"] == reply.headers["x-request-id"]
    assert path not in running.log.read_text()


def test_a_root_waits_for_the_second_of_two(
    running: RegistryProcess, trust_keys: TrustKeys
) -> None:
    path = "/v1/trust/root"
    unsigned = edits.next_root(trust_keys.ceremony.root, datetime.now(UTC), 700.0)
    keys = [load_signer(trust_keys.folder / f"root-{number}.pem", None) for number in (1, 2)]
    refused = running.call("POST", path, {"metadata": json.loads(unsigned)})
    assert (refused.status, refused.json["type"].rsplit(":")[-1]) == (422, "unverified")
    one = edits.sign(unsigned, "root", keys[:1])
    waiting = running.call("POST", path, {"metadata": json.loads(one)}).json
    assert waiting["published"] == {}
    assert [(each["role"], each["missing"]) for each in waiting["waiting"]] == [("root", 1)]
    assert running.get("/tuf/2.root.json", Role.FETCH).status == 404
    staged = running.get(f"{path}/staged")
    assert json.loads(staged.body) == json.loads(one)
    assert running.call("DELETE", f"{path}/staged").status == 204
    assert running.get(f"{path}/staged").status == 404
    both = edits.sign(one, "root", keys[1:])
    done = running.call("POST", path, {"metadata": json.loads(both)}).json
    assert done["published"]["root"] == 2
    assert running.get("/tuf/2.root.json", Role.FETCH).status == 200
    seq = running.get("/v1/registry").json["head"]["seq"]
    assert running.get(f"/v1/log?after={seq}").status == 200  # the head is signed under it


def test_a_root_of_another_epoch_is_published_by_a_promotion_alone(
    running: RegistryProcess, trust_keys: TrustKeys
) -> None:
    version = next(
        one["version"] for one in running.get("/v1/trust").json["roles"] if one["role"] == "root"
    )
    before = running.get(f"/tuf/{version}.root.json", "fetch").body
    draft = edits.next_root(before, datetime.now(UTC), 730, epoch=2)
    signers = [load_signer(trust_keys.folder / f"root-{n}.pem", None) for n in (1, 2)]
    body = {"metadata": json.loads(edits.sign(draft, "root", signers))}
    refused = running.call("POST", "/v1/trust/root", body)
    assert (refused.status, "begins on a replica" in refused.json["detail"]) == (409, True)
    assert running.get("/v1/trust/root/staged").status == 404


def test_a_timestamp_is_signed_anew_before_it_ends(tmp_path: Path) -> None:
    """A clock that has moved on by a day and a half, and a timestamp of which half is over."""
    keys = TrustKeys(tmp_path / "keys")
    settings = keys.settings + "timestamp_days = {}\ntimestamp_left_days = {}\n"
    none = "[evaluation]\nprocesses = 0\n[upkeep]\ntrust_look_s = 0.05\n"
    registry = RegistryProcess(tmp_path / "registry", settings.format(2, 1) + none)
    with registry:
        keys.publish(registry)
        before = int(registry.get("/tuf/timestamp.json").json["signed"]["version"])
        assert registry.stop() == 0
        text = registry.config.read_text()
        registry.config.write_text(
            text.replace("timestamp_days = 2", "timestamp_days = 5").replace(
                "left_days = 1", "left_days = 4"
            )
        )
        registry.start()

        def version() -> int:
            return int(registry.get("/tuf/timestamp.json").json["signed"]["version"])

        until(lambda: version() > before)
        assert version() == before + 1  # once: the new one has enough left
