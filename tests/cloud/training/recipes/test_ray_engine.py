"""A job over a real Ray cluster of two nodes on this machine: `make test-ray`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.training.child_messages import (
    MESSAGES,
    Checkpointed,
    Failed,
    Made,
    Message,
    Order,
    Said,
    Stopped,
)
from cloud.training.documents import Fitting
from cloud.training.recipes.child import Exit
from tests.cloud.training.recipes.children import an_order

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),  # Ray's own, of every kind
]

LONG = Fitting(epochs=1000, batch=32, seed=3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Its address."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    room = {"num_cpus": 2, "object_store_memory": 100 << 20, "include_dashboard": False}
    two = Cluster(initialize_head=True, head_node_args=room)
    try:
        two.add_node(num_cpus=2, object_store_memory=100 << 20)
        two.wait_for_nodes()
        yield two.address
    finally:
        two.shutdown()


def run(
    address: str,
    order: Order,
    *,
    stop_at: int | None = None,
    program: tuple[str, ...] = ("-m", "tests.cloud.training.recipes.tiny_child"),
) -> tuple[list[Message], int]:
    """What it says until it ends; asked to stop once it has a checkpoint of `stop_at`."""
    order.folder.mkdir(exist_ok=True)
    heard: list[Message] = []
    with subprocess.Popen(
        [sys.executable, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "RAY_ADDRESS": address},
    ) as child:  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(order.model_dump_json().encode() + b"\n")
        child.stdin.flush()
        for line in child.stdout:
            heard.append(MESSAGES.validate_json(line))
            last = heard[-1]
            if isinstance(last, Checkpointed) and last.step == stop_at:
                child.send_signal(signal.SIGTERM)
    return heard, child.returncode


def ray_order(folder: Path, name: str = "tiny", **more: object) -> Order:
    return an_order(folder, name, **{"engine": "ray", "processes": 2, **more})


def test_ranks_on_two_nodes_fit_what_two_local_ones_fit(cluster: str, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "file").write_bytes(b"a file of the base data")
    heard, code = run(cluster, ray_order(tmp_path / "ray", base=tmp_path / "base"))
    assert code == Exit.MADE, heard
    assert isinstance(heard[-1], Made)
    assert any(isinstance(m, Said) and m.text.startswith("rank 1 is at ") for m in heard)
    assert not any(isinstance(m, Said) and "one node only" in m.text for m in heard)
    run(cluster, an_order(tmp_path / "local", processes=2))
    assert (tmp_path / "ray" / "weights.bin").read_bytes() == (
        tmp_path / "local" / "weights.bin"
    ).read_bytes()


def test_a_rank_that_is_lost_takes_the_attempt_with_it_and_the_next_goes_on(
    cluster: str, tmp_path: Path
) -> None:
    heard, code = run(cluster, ray_order(tmp_path, "lost", checkpoint_s=1e-6))
    assert code == Exit.LOST, heard
    assert isinstance(heard[-1], Said)
    assert "another process of the job is gone" in heard[-1].text
    assert [m.step for m in heard if isinstance(m, Checkpointed)] == [1, 2, 3, 4]
    heard, code = run(cluster, ray_order(tmp_path))
    assert code == Exit.MADE, heard
    assert [m.step for m in heard if isinstance(m, Checkpointed)] == [6, 9]


def test_a_rank_that_fails_alone_says_why(cluster: str, tmp_path: Path) -> None:
    heard, code = run(cluster, ray_order(tmp_path, "refuses"))
    assert code == Exit.FAILED
    assert isinstance(heard[-1], Failed)
    assert heard[-1].words == "ValueError: this rank alone fails"


def test_asked_to_stop_all_ranks_stop_at_one_step(cluster: str, tmp_path: Path) -> None:
    heard, code = run(cluster, ray_order(tmp_path, fitting=LONG), stop_at=3)
    assert code == Exit.STOPPED
    assert isinstance(heard[-1], Stopped)
    assert heard[-2].step == heard[-1].step


_IMPATIENT = """
from cloud.training.recipes import ray_engine
from tests.cloud.training.recipes.tiny_child import RECIPES, main
ray_engine.PLACED_S = 0.5
raise SystemExit(main(RECIPES))
"""


def test_a_cluster_without_room_loses_the_attempt_in_words(cluster: str, tmp_path: Path) -> None:
    order = ray_order(tmp_path, processes=5)
    heard, code = run(cluster, order, program=("-c", _IMPATIENT))
    assert code == Exit.LOST
    assert isinstance(heard[-1], Said)
    assert "has no room for 5 x 1 CPUs" in heard[-1].text


def test_no_cluster_loses_the_attempt_in_words(tmp_path: Path) -> None:
    heard, code = run("127.0.0.1:1", ray_order(tmp_path))
    assert code == Exit.LOST
    assert isinstance(heard[-1], Said)
    assert "no Ray cluster is to be reached at 127.0.0.1:1" in heard[-1].text
