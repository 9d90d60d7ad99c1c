"""Several processes for one job over a Ray cluster: rank 0 in the child, the others in actors.

Rank 0 stays where the job's folder is, so that checkpoints, messages and the stop are as with one
machine. The others are plain actors, spread over the nodes; they get the order's files through Ray's
object store, and meet rank 0 by `torch.distributed` (gloo) as local ranks do.
"""

import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cloud.training.child_messages import Failed, Order
from cloud.training.recipes import surroundings
from cloud.training.recipes.carrying import Carried, packed, unpacked
from cloud.training.recipes.child import Exit
from cloud.training.recipes.failing import RankLost, failed
from cloud.training.recipes.rank import together
from cloud.training.recipes.saying import Saying, StopAsked
from shared import __version__

REACHED_S = 10.0
"""For a connection to the cluster's head."""
PLACED_S = 60.0
"""How long the cluster may take to find room; then the attempt is lost, and the queue tries again."""
READY_S = 120.0
"""For an actor's process to start and load torch."""
LAST_WORD_S = 30.0
"""For an actor to say why it failed, once rank 0 has lost it."""


class RankActor:
    """One rank on some node. Its methods run in turn, in one process."""

    def ready(self, threads: int) -> tuple[str, str]:
        """The version of this program there, and the node's address."""
        surroundings.prepare(threads)
        surroundings.steady(threads)
        return __version__, ray.util.get_node_ip_address()

    def work(
        self,
        document: str,
        files: dict[str, Any],
        recipes: str,
        meeting: tuple[str, int],
        rank: int,
    ) -> str:
        """Does its part. Nothing, or a `Failed` as JSON: of a failure that is this rank's own."""
        from cloud.training.recipes.ranks import join, leave, reach  # noqa: PLC0415  after `ready`

        order = Order.model_validate_json(document)
        _settle_at(ray.util.get_node_ip_address())
        with tempfile.TemporaryDirectory(prefix="hybridge-rank-") as folder:
            here = unpacked(
                order, {what: ray.get(file) for what, file in files.items()}, Path(folder)
            )
            try:
                join(reach(*meeting, order.processes), rank, order.processes)
                together(here, Saying(lambda _: None), recipes)
            except (StopAsked, RankLost):
                pass  # rank 0 says it
            except Exception as error:  # noqa: BLE001  the last word of this rank, whatever went wrong
                return failed(error).model_dump_json()
            finally:
                leave()  # the others notice
        return ""


def launch(order: Order, out: Saying, recipes: str) -> Exit:
    """Raises `RankLost` when the cluster has no room or loses a node, `TooLarge` for the files."""
    threads = order.threads
    surroundings.steady(threads)
    files = packed(order)
    with _cluster(), _placed(order.processes, threads, out) as actors:
        out.stop_if_asked()
        _ready(actors, threads, out)
        return _work(order, files, actors, out, recipes)


def _work(
    order: Order, files: dict[str, Carried], actors: Sequence[Any], out: Saying, recipes: str
) -> Exit:
    from cloud.training.recipes.ranks import join, listen  # noqa: PLC0415  torch

    address = ray.util.get_node_ip_address()
    _settle_at(address)
    store = listen(address, order.processes)
    kept = {what: ray.put(file) for what, file in files.items()}
    document = order.model_dump_json()
    results = [
        actor.work.remote(document, kept, recipes, (address, store.port), rank)
        for rank, actor in enumerate(actors, start=1)
    ]
    # Rank 0 waits in gloo's C++ while it works: who fails alone is ended, so that it notices.
    threading.Thread(target=_end_all_at_a_failure, args=(results, actors), daemon=True).start()
    try:
        try:
            join(store, 0, order.processes)
        except RuntimeError as error:
            raise RankLost(f"ranks of the job did not meet at {address}: {error}") from error
        end = together(order, out, recipes)
    except RankLost:
        why = _last_word(results)
        if why is None:
            raise
        out.failed(why.reason, why.words, why.step)
        return Exit.FAILED
    return end


def _end_all_at_a_failure(results: Sequence[Any], actors: Sequence[Any]) -> None:
    left = list(results)
    with suppress(RayError):
        while left:
            ended, left = ray.wait(left, num_returns=1)
            if _first_word(ended) is not None:
                for actor in actors:
                    ray.kill(actor)
                return


def _last_word(results: Sequence[Any]) -> Failed | None:
    """Of the first rank that failed by itself; None: a node or a process went."""
    ended, _ = ray.wait(list(results), num_returns=len(results), timeout=LAST_WORD_S)
    return _first_word(ended)


def _first_word(ended: Sequence[Any]) -> Failed | None:
    for result in ended:
        with suppress(RayError):
            said = ray.get(result)
            if said:
                return Failed.model_validate_json(said)
    return None


def _ready(actors: Sequence[Any], threads: int, out: Saying) -> None:
    try:
        heard = ray.get([actor.ready.remote(threads) for actor in actors], timeout=READY_S)
    except (RayError, GetTimeoutError) as error:
        first = str(error).strip().splitlines()[-1]
        raise RankLost(
            f"a rank did not start on the cluster: {first}; each node needs hybridge[train,ray]"
        ) from error
    for rank, (version, address) in enumerate(heard, start=1):
        if version != __version__:
            raise RankLost(f"rank {rank} at {address} is version {version}, not {__version__}")
        out.said(f"rank {rank} is at {address}")


@contextmanager
def _cluster() -> Iterator[None]:
    """Ray is joined, never started; its handler of SIGTERM, which would end us, is undone."""
    before = signal.getsignal(signal.SIGTERM)
    named = os.environ.get("RAY_ADDRESS", "auto")
    host, colon, port = named.rpartition(":")
    try:
        if colon and port.isdigit():  # Ray itself tries for a minute, and then ends the process
            socket.create_connection((host, int(port)), REACHED_S).close()
        ray.init(address="auto", logging_level="ERROR", log_to_driver=True)
    except OSError as error:  # a ConnectionError where Ray finds none
        raise RankLost(
            f"no Ray cluster is to be reached at {named}; start one, and name it "
            "in worker.ray_address"
        ) from error
    finally:
        signal.signal(signal.SIGTERM, before)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _placed(processes: int, threads: int, out: Saying) -> Iterator[list[Any]]:
    """Actors for all ranks but the first, whose own place on this node is reserved like theirs."""
    group = placement_group([{"CPU": threads}] * processes, strategy="SPREAD")
    try:
        if not group.wait(PLACED_S):
            raise RankLost(
                f"the Ray cluster has no room for {processes} x {threads} CPUs; add nodes, or ask for less"
            )
        nodes: dict[int, str] = placement_group_table(group)["bundles_to_node_id"]
        if len(set(nodes.values())) == 1 and processes > 1:
            out.said("the Ray cluster has room on one node only: all ranks are there")
        here = ray.get_runtime_context().get_node_id()
        mine = next((number for number in sorted(nodes) if nodes[number] == here), 0)
        yield [
            ray.remote(RankActor).options(
                num_cpus=threads, max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    group, placement_group_bundle_index=number
                ),
            ).remote()
            for number in sorted(nodes) if number != mine
        ]  # fmt: skip
    finally:
        remove_placement_group(group)


def _settle_at(address: str) -> None:
    """Gloo takes a host's name otherwise, which may lead to its loopback."""
    for name, found in psutil.net_if_addrs().items():
        if any(one.address == address for one in found):
            os.environ["GLOO_SOCKET_IFNAME"] = name
    os.environ["LOCAL_RANK"] = "0"  # ignite would guess it from hosts' names
