"""The broker's state as `$SYS/broker/...` messages, by Mosquitto's names where it has one. Pure.

Names and meanings: mosquitto(8), "Broker status". What only this broker knows stands below
`$SYS/broker/hybridge/`. Payloads are decimal numbers; `uptime` is `N seconds` as Mosquitto's is.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cloud.broker.operations.status import Status

ROOT: Final = "$SYS/broker/"
_Number = Callable[[Status], int | float]

GAUGES: Final[Mapping[str, _Number]] = {
    "clients/total": lambda s: s.sessions,
    "clients/connected": lambda s: s.sessions_connected,
    "clients/disconnected": lambda s: s.sessions_offline,
    "clients/maximum": lambda s: s.counts.connections_max_seen,
    "subscriptions/count": lambda s: s.subscriptions,
    "retained messages/count": lambda s: s.retained_messages,
    "messages/inflight": lambda s: s.inflight_messages,
    "messages/stored": lambda s: s.queued_messages + s.inflight_messages + s.retained_messages,
    "store/messages/count": lambda s: s.queued_messages + s.inflight_messages + s.retained_messages,
    "store/messages/bytes": lambda s: s.queued_bytes + s.retained_bytes,
    "hybridge/connections": lambda s: s.connections,
    "hybridge/queued/messages": lambda s: s.queued_messages,
    "hybridge/queued/bytes": lambda s: s.queued_bytes,
    "hybridge/retained/bytes": lambda s: s.retained_bytes,
}
"""What stands now, by topic below `ROOT`."""

TOTALS: Final[Mapping[str, _Number]] = {
    "messages/received": lambda s: s.counts.messages_received,
    "messages/sent": lambda s: s.counts.messages_sent,
    "publish/messages/received": lambda s: s.counts.publishes_received,
    "publish/messages/sent": lambda s: s.counts.publishes_sent,
    "publish/messages/dropped": lambda s: sum(s.dropped.values()),
    "bytes/received": lambda s: s.counts.bytes_received,
    "bytes/sent": lambda s: s.counts.bytes_sent,
    "hybridge/sockets": lambda s: s.counts.sockets_opened,
    "hybridge/connects": lambda s: s.counts.connects,
    "hybridge/refused/connects": lambda s: s.counts.connects_refused.total(),
    "hybridge/refused/publishes": lambda s: s.counts.publishes_refused.total(),
    "hybridge/refused/subscribes": lambda s: s.counts.subscribes_refused.total(),
}
"""Counted since the start, by topic below `ROOT`."""

DROPPED: Final = "hybridge/dropped/"
"""One topic below it for each `Drop` reason."""

STORE: Final[Mapping[str, _Number]] = {
    "hybridge/store/commits": lambda s: s.store.commits if s.store else 0,
    "hybridge/store/rows": lambda s: s.store.rows if s.store else 0,
    "hybridge/store/failing": lambda s: int(s.store.is_failing) if s.store else 0,
}
"""Only there with a store."""

LOADS: Final[Mapping[str, str]] = {
    "messages/received": "messages/received",
    "messages/sent": "messages/sent",
    "publish/received": "publish/messages/received",
    "publish/sent": "publish/messages/sent",
    "publish/dropped": "publish/messages/dropped",
    "bytes/received": "bytes/received",
    "bytes/sent": "bytes/sent",
    "sockets": "hybridge/sockets",
    "connections": "hybridge/connects",
}
"""Moving averages, a minute: `load/NAME/1min` and so on, of which total."""
SPANS: Final[Mapping[str, float]] = {"1min": 60.0, "5min": 300.0, "15min": 900.0}
"""Time constants of the averages in seconds."""


@dataclass(frozen=True, slots=True)
class Loads:
    """The moving averages of `LOADS`, each a minute, over each of `SPANS`."""

    at_s: float = 0.0
    """Uptime at the last step."""
    totals: Mapping[str, int | float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    """By topic below `ROOT`."""


def step(loads: Loads, status: Status) -> Loads:
    """Take the totals of a later status into the averages, as Mosquitto does.

    Each average moves towards the rate since the last step by 1 - exp(-passed / span).
    """
    passed_s = status.uptime_s - loads.at_s
    if passed_s <= 0:
        return loads
    totals = {name: TOTALS[total](status) for name, total in LOADS.items()}
    rates: dict[str, float] = {}
    for name, total in totals.items():
        rate = (total - loads.totals.get(name, 0)) * 60.0 / passed_s
        for span, span_s in SPANS.items():
            topic = f"load/{name}/{span}"
            before = loads.rates.get(topic, 0.0)
            rates[topic] = rate + math.exp(-passed_s / span_s) * (before - rate)
    return Loads(status.uptime_s, totals, rates)


def topics(status: Status, loads: Loads) -> dict[str, bytes]:
    """Give every `$SYS` topic and its payload."""
    found: dict[str, str] = {
        "version": f"hybridge version {status.version}",
        "uptime": f"{status.uptime_s:.0f} seconds",
    }
    tables = (GAUGES, TOTALS, STORE) if status.store is not None else (GAUGES, TOTALS)
    for table in tables:
        found.update((name, str(number(status))) for name, number in table.items())
    found.update((f"{DROPPED}{why}", str(count)) for why, count in status.dropped.items())
    found.update((topic, f"{rate:.2f}") for topic, rate in loads.rates.items())
    return {ROOT + topic: payload.encode() for topic, payload in found.items()}


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, bytes]:
    """Give those of `after` that `before` had not, or had otherwise: what is worth publishing."""
    return {topic: payload for topic, payload in after.items() if before.get(topic) != payload}
