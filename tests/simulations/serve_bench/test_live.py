"""The bench's own programs against real servers, for seconds."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cloud import config
from cloud.capacity.load.arrivals import Stretch
from cloud.capacity.load.outcomes import phase
from shared.errors import Unavailable
from simulations.serve_bench import generator, model, mqtt_path, ours, overload, server, wire_forms
from simulations.serve_bench.model import Material
from simulations.serve_bench.peers import PEERS, Launch


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return model.make(tmp_path_factory.mktemp("material"))


def test_the_bare_prototype_answers_right_and_the_open_loop_hears_every_answer(
    material: Material, tmp_path: Path
) -> None:
    peer = PEERS["bare"]
    asked = wire_forms.request(peer.form, peer.path, material.sample)
    seen: list[float] = []
    with server.peer_running(peer, material, tmp_path / "bare") as running:
        found = generator.run(
            running.url, asked, [Stretch(200, 0.5)], tmp_path,
            meanwhile=lambda load: (load.at(0.1), seen.append(load.began))[0],
        )  # fmt: skip
        assert running.pids
    summed = phase(found, 0, 0.5)
    assert summed.answered == len(found.due) > 50
    assert summed.failed == summed.refused == 0
    assert 0 < summed.answered_p50_ms <= summed.answered_p99_ms
    assert seen


def test_a_wrong_answer_is_not_timed(material: Material, tmp_path: Path) -> None:
    echo = replace(PEERS["echo"], answers_right=True)  # it claims to, and answers zeros
    with (
        pytest.raises(Unavailable, match="its answer is wrong"),
        server.peer_running(echo, material, tmp_path / "echo"),
    ):
        pytest.fail("it was taken for right")


def test_a_server_that_does_not_start_is_told_with_its_last_words(
    material: Material, tmp_path: Path
) -> None:
    broken = replace(
        PEERS["bare"], launch=lambda _: Launch((sys.executable, "-c", "exit('no such weather')"))
    )
    with (
        pytest.raises(Unavailable, match=r"(?s)ended with 1.*no such weather"),
        server.peer_running(broken, material, tmp_path / "broken"),
    ):
        pytest.fail("it was taken for running")


def test_ours_answers_in_every_lane_and_only_with_its_key(
    material: Material, tmp_path: Path
) -> None:
    first = wire_forms.request(ours.LANES[0].form, ours.LANES[0].path, material.sample)
    with ours.ours_running(material.bundle, tmp_path / "ours", first) as running:
        for lane in ours.LANES:
            server.check(running.server.url, lane.request(material, running.key), material)
        status, _, _ = server.post(running.server.url, first)
        assert status == 401


def test_the_overload_s_settings_are_settings() -> None:
    read = config.load(overload.CONFIG, {"models": [{"bundle": "any"}]})
    assert read.processes == 1
    assert read.result_cache.policy == "off"
    assert read.gateway.key_file == overload.CONFIG.parent / ours.KEY_FILE


def test_devices_hear_of_each_escalation_that_a_bare_broker_s_echo_returns(tmp_path: Path) -> None:
    order = mqtt_path.order(Path("models"), devices=2, window=4, per_second=100, seconds=0.3)
    port = server.free_ports()[0]
    with mqtt_path.bare_broker(tmp_path / "broker", port, order):
        found = mqtt_path.load(order, port)
    assert found.per_second > 50
    assert 0 < found.p50_ms <= found.p99_ms
