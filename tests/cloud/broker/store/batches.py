"""Batches to write, and the dict model that says what has to be there afterwards."""

import random
from dataclasses import dataclass, field

from hypothesis import strategies as st

from cloud.broker.session.records import (
    Batch,
    DeliveryRow,
    MessageRow,
    SessionRow,
    Snapshot,
    SubscriptionRow,
)


@dataclass
class Model:
    """What is stored, by key."""

    messages: dict[int, MessageRow] = field(default_factory=dict)
    deliveries: dict[int, DeliveryRow] = field(default_factory=dict)
    sessions: dict[str, SessionRow] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], SubscriptionRow] = field(default_factory=dict)
    received: set[tuple[str, int]] = field(default_factory=set)
    retained: dict[str, int] = field(default_factory=dict)

    def write(self, batch: Batch) -> None:
        for message_id in batch.messages_gone:
            self.messages.pop(message_id, None)
        for delivery_id in batch.deliveries_gone:
            self.deliveries.pop(delivery_id, None)
        for client_id in batch.sessions_gone:
            self.sessions.pop(client_id, None)
            self.subscriptions = {k: v for k, v in self.subscriptions.items() if k[0] != client_id}
            self.received = {one for one in self.received if one[0] != client_id}
        for key in batch.subscriptions_gone:
            self.subscriptions.pop(key, None)
        self.received -= set(batch.received_gone)
        for topic in batch.retained_gone:
            self.retained.pop(topic, None)
        self.messages |= {row.message_id: row for row in batch.messages}
        self.deliveries |= {row.delivery_id: row for row in batch.deliveries}
        self.sessions |= {row.client_id: row for row in batch.sessions}
        self.subscriptions |= {
            (row.client_id, row.topic_filter): row for row in batch.subscriptions
        }
        self.received |= set(batch.received)
        self.retained |= dict(batch.retained)

    def forget_what_belongs_to_nothing(self) -> None:
        for client_id, row in self.sessions.items():
            if row.will_message_id not in self.messages:
                self.sessions[client_id] = row._replace(will_message_id=None)
        self.deliveries = {
            key: row
            for key, row in self.deliveries.items()
            if row.client_id in self.sessions
            and (row.message_id is None or row.message_id in self.messages)
        }
        self.subscriptions = {k: v for k, v in self.subscriptions.items() if k[0] in self.sessions}
        self.received = {one for one in self.received if one[0] in self.sessions}
        self.retained = {k: v for k, v in self.retained.items() if v in self.messages}
        named = {row.message_id for row in self.deliveries.values()}
        named |= {row.will_message_id for row in self.sessions.values()}
        named |= set(self.retained.values())
        self.messages = {k: v for k, v in self.messages.items() if k in named}


def model_of(snapshot: Snapshot) -> Model:
    ids = [row.delivery_id for row in snapshot.deliveries]
    assert ids == sorted(ids)
    model = Model()
    model.write(
        Batch(
            0,
            messages=snapshot.messages,
            deliveries=snapshot.deliveries,
            sessions=snapshot.sessions,
            subscriptions=snapshot.subscriptions,
            received=snapshot.received,
            retained=snapshot.retained,
        )
    )
    return model


def message(message_id: int, payload: bytes = b"", topic: str = "a/b") -> MessageRow:
    return MessageRow(message_id, topic, payload, 1, False, b"\0", "publisher", None)


def delivery(delivery_id: int, client_id: str, message_id: int | None = None) -> DeliveryRow:
    return DeliveryRow(delivery_id, client_id, message_id, 1, False, (), "", 0)


def session(client_id: str, expiry_s: float = 60.0, will: int | None = None) -> SessionRow:
    return SessionRow(client_id, None, expiry_s, None, will, 0.0, None)


def queued(count: int, payload_bytes: int = 100, first: int = 1) -> Batch:
    """Messages that wait for one session."""
    ids = range(first, first + count)
    return Batch(
        first,
        messages=[message(one, random.Random(one).randbytes(payload_bytes)) for one in ids],
        deliveries=[delivery(one, "c", one) for one in ids],
        sessions=[session("c")],
    )


def traffic(number: int) -> Batch:
    """What a broker might write as its batch of that number: 1, 2, 3...

    Consistent after each; the expiry of session `count` is the number.
    """
    rng = random.Random(number)
    batch = Batch(number, sessions=[session("count", float(number))])
    for at in range(rng.randint(1, 12)):
        one = number * 100 + at
        payload = rng.randbytes(rng.choice((10, 1_000, 20_000)))
        batch.messages.append(message(one, payload, f"topic/{one % 7}"))
        batch.deliveries.append(delivery(one, f"client-{one % 5}", one))
    batch.sessions += [session(f"client-{at}", rng.random()) for at in range(5)]
    if number > 3:
        gone = [(number - 3) * 100 + at for at in range(12)]
        batch.messages_gone, batch.deliveries_gone = gone, gone
    batch.received = [(f"client-{number % 5}", number % 65_536)]
    batch.received_gone = [(f"client-{(number - 2) % 5}", (number - 2) % 65_536)]
    batch.subscriptions = [SubscriptionRow(f"client-{number % 5}", f"f/{number}", 1, 0)]
    batch.subscriptions_gone = [(f"client-{(number - 4) % 5}", f"f/{number - 4}")]
    batch.retained = [(f"kept/{number % 3}", number * 100)]
    batch.retained_gone = [f"kept/{(number - 2) % 3}"] if number > 2 else []
    return batch


_IDS = st.integers(1, 5)
_BIG_IDS = st.one_of(_IDS, st.integers(1, 2**63 - 1))
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_CLIENTS = st.sampled_from(["a", "b", "ä"])
_TOPICS = st.sampled_from(["t", "t/u", "$share/g/t/#"])
_TIMES = st.none() | st.floats(allow_nan=False)
_BYTES = st.binary(max_size=20)
_MESSAGES = st.builds(
    MessageRow, st.just(0), _TEXT, _BYTES, st.integers(0, 2), st.booleans(), _BYTES, _TEXT, _TIMES
)
_DELIVERIES = st.builds(
    DeliveryRow,
    st.just(0),
    _CLIENTS,
    st.none() | _IDS,
    st.integers(0, 2),
    st.booleans(),
    st.lists(st.integers(1, 268_435_455), max_size=3).map(tuple),
    _TEXT,
    st.integers(0, 65_535),
)
_SESSIONS = st.builds(
    SessionRow,
    st.just(""),
    st.none() | _TEXT,
    st.floats(0, allow_nan=False),
    _TIMES,
    st.none() | _IDS,
    st.floats(0, allow_nan=False),
    _TIMES,
)
_PAIRS = st.tuples(_CLIENTS, st.integers(1, 3))


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Any batch: a key is put, or gone, or neither."""
    messages = draw(st.dictionaries(_IDS, st.none() | _MESSAGES))
    deliveries = draw(st.dictionaries(_BIG_IDS, st.none() | _DELIVERIES))
    sessions = draw(st.dictionaries(_CLIENTS, st.none() | _SESSIONS))
    subscriptions = draw(
        st.dictionaries(
            st.tuples(_CLIENTS, _TOPICS),
            st.none() | st.tuples(st.integers(0, 255), st.integers(0, 9)),
        )
    )
    received = draw(st.dictionaries(_PAIRS, st.booleans()))
    retained = draw(st.dictionaries(_TEXT | _TOPICS, st.none() | _IDS))
    return Batch(
        0,
        [row._replace(message_id=key) for key, row in messages.items() if row],
        [key for key, row in messages.items() if not row],
        [row._replace(delivery_id=key) for key, row in deliveries.items() if row],
        [key for key, row in deliveries.items() if not row],
        [row._replace(client_id=key) for key, row in sessions.items() if row],
        [key for key, row in sessions.items() if not row],
        [SubscriptionRow(*key, *rest) for key, rest in subscriptions.items() if rest],
        [key for key, rest in subscriptions.items() if not rest],
        [key for key, is_put in received.items() if is_put],
        [key for key, is_put in received.items() if not is_put],
        [(key, at) for key, at in retained.items() if at],
        [key for key, at in retained.items() if not at],
    )
