"""Closed-loop cells: every server at every concurrency, in rounds whose order turns."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from shared.errors import Unavailable
from simulations.serve_bench import process, wire_forms, wrk
from simulations.serve_bench.install import install, version
from simulations.serve_bench.model import Material
from simulations.serve_bench.ours import LANES, ours_running
from simulations.serve_bench.peers import FRONT, PEERS, Peer
from simulations.serve_bench.results import Cell, Cells, Run, Subject
from simulations.serve_bench.server import Server, check, peer_running
from simulations.serve_bench.wire_forms import request

CONCURRENCIES: Final = (1, 8, 64, 256)
_WARM_UP_S: Final = 1
_BEHIND_ROUNDS_MAX: Final = 3
"""For servers that are an order of magnitude behind."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run measures."""

    peers: tuple[str, ...]
    rounds: int
    seconds: int
    concurrencies: tuple[int, ...] = CONCURRENCIES


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A running server with its request."""

    name: str
    title: str
    version: str
    server: Server
    script: Path
    is_ours: bool = False
    is_floor: bool = False
    is_front: bool = False


def measure(plan: Plan, material: Material, folder: Path, say: Say) -> Cells:
    """Measure ours with the front in alternation, then the others one at a time."""
    absent = {
        name: f"not installed: {why}; `python -m simulations.serve_bench install {name}` tries again"
        for name, why in install(plan.peers).items()
    }
    subjects: list[Subject] = []
    cells: list[Cell] = []
    groups = [[name for name in plan.peers if name in FRONT]]
    groups += [[name] for name in plan.peers if name not in FRONT]
    for group in groups:
        is_front = group is groups[0]
        rounds = plan.rounds if is_front else min(plan.rounds, _BEHIND_ROUNDS_MAX)
        with ExitStack() as stack:
            loaded = _start_ours(stack, material, folder, absent, say) if is_front else []
            for name in group:
                if name not in absent and (
                    one := _start(stack, name, material, folder, absent, say)
                ):
                    loaded.append(one)
            going = loaded
            for concurrency in plan.concurrencies:
                turn = _Turn(concurrency, rounds, plan.seconds)
                found, lost = _round_robin(going, turn, say)
                cells += found
                absent |= lost
                going = [one for one in going if one.name not in lost]
            subjects += [_subject(one) for one in loaded]
    return Cells(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"), seconds=plan.seconds,
        subjects=tuple(subjects), cells=tuple(cells), absent=absent,
    )  # fmt: skip


def _start_ours(
    stack: ExitStack, material: Material, folder: Path, absent: dict[str, str], say: Say
) -> list[_Loaded]:
    say("starting ours")
    first = wire_forms.request(LANES[0].form, LANES[0].path, material.sample)
    try:
        ours = stack.enter_context(ours_running(material.bundle, folder / "ours", first))
    except Unavailable as error:
        absent[LANES[0].name] = str(error)
        return []
    server = ours.server
    loaded: list[_Loaded] = []
    for lane in LANES:
        asked = lane.request(material, ours.key)
        try:
            check(server.url, asked, material)
        except Unavailable as error:
            absent[lane.name] = str(error)
            continue
        script = wrk.write_script(folder, lane.name, asked)
        loaded.append(
            _Loaded(lane.name, lane.title, "", server, script, is_ours=True, is_front=True)
        )
    return loaded


def _start(
    stack: ExitStack, name: str, material: Material, folder: Path, absent: dict[str, str], say: Say
) -> _Loaded | None:
    peer: Peer = PEERS[name]
    say(f"starting {peer.title}")
    running: AbstractContextManager[Server] = peer_running(peer, material, folder / name)
    try:
        server = stack.enter_context(running)
    except Unavailable as error:
        absent[name] = str(error)
        return None
    script = wrk.write_script(folder, name, request(peer.form, peer.path, material.sample))
    return _Loaded(
        name, peer.title, version(peer), server, script,
        is_floor=peer.is_floor, is_front=name in FRONT,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Turn:
    concurrency: int
    rounds: int
    seconds: int


def _round_robin(
    loaded: Sequence[_Loaded], turn: _Turn, say: Say
) -> tuple[list[Cell], dict[str, str]]:
    """Each once warm, then `rounds` times; who begins changes every round. And who died, and how."""
    runs: dict[str, list[Run]] = {one.name: [] for one in loaded}
    lost: dict[str, str] = {}
    for number in range(-1, turn.rounds):
        first = max(0, number) % max(1, len(loaded))
        for one in (*loaded[first:], *loaded[:first]):
            if one.name in lost:
                continue
            try:
                if number < 0:
                    wrk.run(one.server.url, one.script, turn.concurrency, _WARM_UP_S)
                else:
                    runs[one.name].append(_run(one, turn.concurrency, turn.seconds))
            except Unavailable as error:
                lost[one.name] = (
                    f"at {turn.concurrency}: {error}; its log ends: {one.server.last_words()}"
                )
                say(f"lost {one.name} {lost[one.name]}")
    found = [
        Cell(subject=name, concurrency=turn.concurrency, runs=tuple(its))
        for name, its in runs.items()
        if name not in lost
    ]
    for cell in found:
        say(
            f"  {cell.subject:14} at {turn.concurrency:3}: {cell.median('per_second'):8,.0f}/s  p50 "
            f"{cell.median('p50_ms'):.2f} ms  p99 {cell.median('p99_ms'):.2f} ms"
        )
    return found, lost


def _run(one: _Loaded, concurrency: int, seconds: int) -> Run:
    pids = one.server.pids
    server_s, busy_s, began = process.cpu_s(pids), process.machine_busy_s(), time.monotonic()
    found = wrk.run(one.server.url, one.script, concurrency, seconds)
    took_s = time.monotonic() - began
    server_s = process.cpu_s(pids) - server_s
    other_s = process.machine_busy_s() - busy_s - server_s - found.client_cpu_s
    return Run(
        per_second=found.per_second, p50_ms=found.p50_ms, p99_ms=found.p99_ms, failed=found.failed,
        server_cpu_us=server_s * 1e6 / max(1, found.answered),
        other_cores=max(0.0, other_s / took_s),
    )  # fmt: skip


def _subject(one: _Loaded) -> Subject:
    return Subject(
        name=one.name, title=one.title, version=one.version, is_ours=one.is_ours,
        is_floor=one.is_floor, is_front=one.is_front, started_s=one.server.started_s,
        pss_mb=process.pss_mb(one.server.pids),
    )  # fmt: skip
