"""What is measured: each cell a load, the broker's bounds for it, and the rows it gives."""

from dataclasses import dataclass
from typing import Final

from simulations.broker_bench.loads import Load

KIB: Final = 1_024
UNBOUNDED_BYTES: Final = 2**36
"""The loads bound what waits themselves, so that neither broker has a reason to drop."""
BOUNDED_BYTES: Final = 64 * KIB * KIB
"""May wait for a subscriber that does not read, of 156 MiB that are published. Mosquitto 2.0.11
cannot be bounded so: it never takes off what it has counted against `max_queued_bytes`."""
IDLE_CONNECTIONS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Cell:
    """One load on both brokers. `group` is what `--only` names."""

    group: str
    what: str
    load: Load
    metrics: tuple[str, ...]
    """Names in `report.METRICS`; a name with a `?` is for information."""
    queued_bytes_max: int = UNBOUNDED_BYTES
    needs_fresh_broker: bool = False
    """Where memory of an earlier round would count."""


def cells(measured_s: float) -> list[Cell]:
    """Give every cell, rates measured for so long in each round."""
    found: list[Cell] = []
    for payload_kb in (1, 8, 64):
        for publishers in (1, 50, 500):
            load = Load("throughput", payload_kb * KIB, publishers, measured_s=measured_s)
            what = f"QoS 1, {payload_kb} KB x {publishers}"
            found.append(Cell("rate", what, load, ("rate", "cpu?")))
    share = Load("throughput", publishers=50, consumers=4, measured_s=measured_s)
    durable = Load("throughput", publishers=50, session_expiry_s=3_600, measured_s=measured_s)
    # 6 samples are over the p99 of 2 s, so it needs a longer run than a rate
    paced = Load("latency", measured_s=4 * measured_s)
    paced_durable = Load("latency", session_expiry_s=3_600, measured_s=paced.measured_s)
    slow = Load("slow-reader", 64 * KIB, 500, messages=5)
    idle = Load("idle", publishers=IDLE_CONNECTIONS)
    return [
        *found,
        Cell("share", "$share, 4 consumers, 1 KB x 50", share, ("rate", "cpu?", "spread?")),
        Cell("latency", "300 messages/s, 1 KB", paced, ("p50?", "p99")),
        Cell("durable", "durable session, 1 KB x 50", durable, ("rate?", "cpu?")),
        Cell("durable", "durable session, 300/s", paced_durable, ("p50?", "p99?")),
        Cell(
            "memory", "no reader, 500 x 64 KB x 5", slow, ("peak", "seconds?"),
            needs_fresh_broker=True,
        ),
        Cell(
            "memory", "the same, 64 MiB may wait", slow, ("peak?",), BOUNDED_BYTES,
            needs_fresh_broker=True,
        ),
        Cell(
            "idle", f"{IDLE_CONNECTIONS:,} idle", idle, ("answered", "per_connection?", "seconds?"),
            needs_fresh_broker=True,
        ),
    ]  # fmt: skip
