"""Episodes of the in-process fuzz: each is made by its own seed and can be run again alone."""

import gc
import time
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from cloud.broker.codec.parser import Parser
from cloud.broker.codec.reasons import BrokenRule
from simulations.broker_fuzz import grammar
from simulations.broker_fuzz.client import ClientView, Wrong
from simulations.broker_fuzz.failures import Failure
from simulations.broker_fuzz.mutations import MUTATIONS, Mutation
from simulations.broker_fuzz.parts import V311
from simulations.broker_fuzz.stack import PACKET_BYTES_MAX, Slot, Stack

QUOTA: Final = 0x97
"""A full broker says so in PUBACK; 3.1.1 has no word for it but the end of the connection."""
STEPS: Final = 150
CLIENTS: Final = 5
SAMPLE_EVERY: Final = 40
"""Steps between two whose allocations are traced, which costs ten times their time."""
SAMPLED_BYTES_MAX: Final = 1 << 20
"""Bound of what a step may allocate beside what its bytes and their copies need."""
BYTES_PER_BYTE: Final = 64


@dataclass(slots=True)
class Tally:
    """What a campaign did."""

    packets: int = 0
    episodes: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """By mutation."""
    accepted: Counter[str] = field(default_factory=Counter)
    """Mutations that still meant something."""
    allocated_bytes_peak: int = 0
    step_cpu_s_max: float = 0.0


class Episode:
    """A fresh broker and some clients, of which many break the rules."""

    def __init__(self, seed: int, number: int, tally: Tally) -> None:
        """Prepare; the same seed and number give the same bytes."""
        self._rng = Random(f"{seed}/{number}")
        self._where = (seed, number)
        self._tally = tally
        self._stack = Stack(CLIENTS, is_durable=number % 2 == 1)
        self._doing = "nothing yet"
        self._slot: Slot | None = None

    def run(self) -> Failure | None:
        """Give what went wrong, if anything did."""
        try:
            for step in range(STEPS):
                if step % SAMPLE_EVERY == SAMPLE_EVERY - 1:
                    self._traced_step()
                else:
                    self._step()
            self._doing = "the end of all sessions"
            self._stack.end()
        except Exception as error:  # noqa: BLE001  any exception that escapes is the finding
            sent = self._slot.sent if self._slot is not None else []
            kind = "wrong" if isinstance(error, Wrong) else "escaped"
            return Failure(*self._where, self._doing, kind, repr(error), b"".join(sent).hex())
        finally:
            self._tally.episodes += 1
        return None

    def _traced_step(self) -> None:
        gc.collect()
        was_tracing = tracemalloc.is_tracing()
        tracemalloc.start()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            fed = self._step()
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            if not was_tracing:
                tracemalloc.stop()
        self._tally.allocated_bytes_peak = max(self._tally.allocated_bytes_peak, peak)
        if peak > SAMPLED_BYTES_MAX + BYTES_PER_BYTE * fed:
            raise Wrong(f"{fed} bytes made it allocate {peak}")

    def _step(self) -> int:
        """One client sends one packet, whole or broken; gives its size in bytes."""
        rng, stack = self._rng, self._stack
        if rng.random() < 0.1:
            stack.pass_time(rng.choice((0.0, 0.1, 2.0, 20.0)))
        if rng.random() < 0.4:
            stack.commit()
        if rng.random() < 0.01:
            self._doing = "a crash"
            stack.crash()
        index = rng.randrange(CLIENTS)
        slot = stack.slots[index]
        if slot is not None and slot.connection.is_closing:  # taken over by another
            slot.read(stack.now)
            slot = None
        if slot is None or rng.random() < 0.02:
            if slot is not None:
                slot.connection.lost(stack.now)
            slot = stack.slots[index] = Slot(stack.router)
        self._slot = slot
        wire = self._talk(slot, index)
        self._tally.packets += 1
        if slot.connection.is_closing:
            slot.connection.lost(stack.now)
            stack.slots[index] = None
        if rng.random() < 0.5:
            stack.deliver()
        if rng.random() < 0.05:
            self._doing += ", then quiet"
            stack.settle()
        return len(wire)

    def _talk(self, slot: Slot, index: int) -> bytes:
        rng, view = self._rng, slot.view
        if not view.is_connected and slot.connection.granted is not None:
            self._stack.settle()  # its CONNACK waits for the store
            slot.read(self._stack.now)
            if not view.is_connected:
                raise Wrong("a CONNECT was granted and nobody says so")
        if not view.is_connected:
            client_id = rng.choice((f"c{index}", f"c{index}", f"c{(index + 1) % CLIENTS}", ""))
            if rng.random() < 0.05:
                draft = grammar.publish(rng, ClientView())
                return self._refused(slot, draft.wire(), "before CONNECT", frozenset((0x81, 0x82)))
            draft = grammar.connect(rng, view, client_id)
        else:
            draft = grammar.any_packet(rng, view)
        if rng.random() < 0.75:
            self._doing = f"a valid {draft.name}"
            wire = draft.wire()
            error = self._feed(slot, wire)
            if error is None:
                if slot.is_woken and (rng.random() < 0.7 or not view.is_connected):
                    slot.read(self._stack.now)
            elif draft.name == "PUBLISH" and draft.version == V311 and error.reason == QUOTA:
                slot.refuse(error, self._stack.now)
            else:
                raise Wrong(f"a valid {draft.name} was refused: {error}")
            return wire
        mutation = rng.choice(MUTATIONS)
        broken = mutation.make(draft, rng, view)
        if broken is None:
            slot.connection.lost(self._stack.now)  # the draft changed `view` and was not sent
            return b""
        return self._broken(slot, broken, mutation, draft.name)

    def _broken(self, slot: Slot, wire: bytes, mutation: Mutation, name: str) -> bytes:
        label = f"{name}: {mutation.name}"
        if mutation.is_wrong:
            return self._refused(slot, wire, label, mutation.reasons)
        self._doing = label
        error = self._feed(slot, wire)
        if error is None:
            self._tally.accepted[label] += 1
            slot.connection.lost(self._stack.now)  # what the client knows is no longer true
            slot.connection.collect(self._stack.now, 1 << 30)
        else:
            self._judge(slot, error, label, mutation.reasons)
        return wire

    def _refused(self, slot: Slot, wire: bytes, label: str, reasons: frozenset[int]) -> bytes:
        self._doing = label
        error = self._feed(slot, wire)
        if error is None:
            raise Wrong("it was accepted")
        self._judge(slot, error, label, reasons)
        return wire

    def _judge(self, slot: Slot, error: BrokenRule, label: str, reasons: frozenset[int]) -> None:
        if error.reason not in reasons:
            raise Wrong(f"reason {error.reason:#x}, want one of {[hex(one) for one in reasons]}")
        slot.refuse(error, self._stack.now)
        self._tally.refused[label.partition(": ")[2] or label] += 1

    def _feed(self, slot: Slot, wire: bytes) -> BrokenRule | None:
        rng = self._rng
        segments = [wire]
        if rng.random() < 0.3:
            cuts = sorted(rng.randrange(len(wire) + 1) for _ in range(rng.choice((1, 2, 5))))
            segments = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
        if rng.random() < 0.05:
            _splitting_changes_nothing(slot, wire, segments)
        began = time.thread_time()
        error = slot.feed(segments, self._stack.now)
        self._tally.step_cpu_s_max = max(self._tally.step_cpu_s_max, time.thread_time() - began)
        return error


def _splitting_changes_nothing(slot: Slot, wire: bytes, segments: list[bytes]) -> None:
    """Raise `Wrong` unless a fresh parser says the same of the whole and of its pieces."""
    version = slot.parser.version if slot.view.is_connected else None

    def said(pieces: list[bytes]) -> tuple[list[object], int]:
        parser = Parser(PACKET_BYTES_MAX, version)
        packets: list[object] = []
        try:
            for piece in pieces:
                packets.extend(parser.feed(piece))
        except BrokenRule as error:
            return packets, error.reason
        return packets, 0

    for pieces in (segments, [bytes((byte,)) for byte in wire[:300]] + [wire[300:]]):
        if said(pieces) != said([wire]):
            raise Wrong(f"{said([wire])} in one piece, {said(pieces)} in {len(pieces)}")
