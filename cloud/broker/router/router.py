"""All sessions and who gets what: routing, wills, expiry, and what the store must know. Pure."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable

from cloud.broker.access.identity import Identity
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.limits import Limits
from cloud.broker.router.retained import RetainedMessages
from cloud.broker.router.sharing import Sharing
from cloud.broker.router.subscribing import Subscribing
from cloud.broker.router.subscriptions import SubscriptionTree
from cloud.broker.session.changes import Changes
from cloud.broker.session.inflight import Budget, Link
from cloud.broker.session.messages import Delivery, Drop, Message, split_expiry
from cloud.broker.session.session import Session


class Router:
    """State of the whole broker; `now` is seconds on any clock that never goes back.

    With `changes`, sessions that outlive their connection, what waits for them and retained
    messages are noted there for the store.
    """

    def __init__(
        self, limits: Limits, new_client_id: Callable[[], str], changes: Changes | None = None
    ) -> None:
        """Start empty; `new_client_id` names clients that come without a name (3.1.3.1)."""
        self.limits = limits
        self.new_client_id = new_client_id
        self.changes = changes
        self.sessions: dict[str, Session] = {}
        self.tree = SubscriptionTree()
        self.sharing = Sharing(self.sessions, self.tree)
        self.retained = RetainedMessages(limits.retained_max, limits.retained_bytes_max, changes)
        self.budget = Budget(limits.queued_bytes_max_total)
        self.dropped_of_ended: Counter[Drop] = Counter()
        self.subscribing = Subscribing(limits, self.tree, self.sharing, self.retained)
        self._timers: list[tuple[float, str]] = []

    def dropped(self) -> Counter[Drop]:
        """Messages given up since the start, by reason."""
        total = Counter(self.dropped_of_ended)
        for session in self.sessions.values():
            if session.dropped:
                total.update(session.dropped)
        return total

    def open(
        self,
        identity: Identity,
        link: Link,
        now: float,
        *,
        clean: bool,
        expiry_s: float,
        window: int,
        will: tuple[Message, float] | None = None,
    ) -> tuple[Session, bool]:
        """Start or resume a session (3.1.2.4), taking it over from another connection.

        `will` is its message, with the expiry still among its properties, and its delay in seconds.
        Returns the session and whether it was present. Raises `BrokenRule` 0x97 when the broker
        is full, and 0x85 when the session is another user's.
        """
        client_id = identity.client_id
        session = self.sessions.get(client_id)
        is_others = session is not None and not identity.may_resume(session.username)
        if is_others and session is not None and session.username is not None:
            why = "this client identifier belongs to another user's session"
            raise BrokenRule(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
        if session is not None and session.link is not None:
            session.link.take_over(now)
            session = self.sessions.get(client_id)
        if session is not None and (clean or is_others):  # nobody's, from before there were users
            self._end(session, now)
            session = None
        present = session is not None
        if session is None:
            if len(self.sessions) >= self.limits.sessions_max:
                raise BrokenRule(ReasonCode.QUOTA_EXCEEDED, "no room for another session")
            changes = self.changes if expiry_s > 0 else None
            session = Session(client_id, self.limits.queued_bytes_max, self.budget, changes)
            self.sessions[client_id] = session
        session.expiry_s, session.username = expiry_s, identity.username
        if expiry_s <= 0:
            session.forget()
        session.resume(link, window)
        session.set_will(*(will or (None,)))
        session.note()
        for share in session.shares:
            self.sharing.collect(share, now)
        return session, present

    def close(self, session: Session, now: float, *, publish_will: bool) -> None:
        """Lose a session's connection; a normal DISCONNECT takes the will along (3.14.4-3)."""
        session.detach()
        self.sharing.hand_on(session, now)
        if not publish_will:
            session.set_will(None)
        if session.expiry_s <= 0:
            self._end(session, now)
            return
        session.ends_at = now + session.expiry_s
        if session.will is not None:
            session.will_at = now + min(session.will_delay_s, session.expiry_s)
            if session.will_at <= now:
                self._publish_will(session, now)
        session.note()
        self._arm(session)

    def due_at(self) -> float | None:
        """When `expire` has something to do next; None while no session waits."""
        return self._timers[0][0] if self._timers else None

    def expire(self, now: float) -> None:
        """Publish wills whose delay is over and end sessions whose time is."""
        while self._timers and self._timers[0][0] <= now:
            at, client_id = heapq.heappop(self._timers)
            session = self.sessions.get(client_id)
            if session is None or session.timer_at != at:
                continue
            session.timer_at = None  # nothing is due for one that is connected again
            if session.will_at is not None and session.will_at <= now:
                self._publish_will(session, now)
                session.note()
            if session.ends_at is not None and session.ends_at <= now:
                self._end(session, now)
            else:
                self._arm(session)

    def publish(self, message: Message, now: float) -> int:
        """Retain and route a message; the reason code for its publisher (3.4.2.1).

        0x10 if nobody subscribed, 0x97 if it was to be kept (retained, or QoS>0 for a session) and
        nobody had room. Until `message.kept` holds, or for a retained one `changes.promise`, a
        success is not to be told.
        """
        refused = False
        if message.retain:
            refused = not self.retained.store(message, now)
        found = self.tree.match(message.topic)
        matched = accepted = 0
        size_bytes = message.size_bytes
        for route in found.routes:
            if route.no_local and route.client_id == message.publisher:
                continue
            matched += 1
            retain = message.retain and route.retain_as_published
            qos = min(message.qos, route.qos)
            delivery = Delivery(message, qos, retain, route.identifiers, None, size_bytes)
            accepted += self.sessions[route.client_id].enqueue(delivery, now) or not qos
        for group in found.groups:
            matched += 1
            accepted += self.sharing.give(group, message, now) or not message.qos
        if refused or (matched and not accepted):
            return ReasonCode.QUOTA_EXCEEDED
        return 0 if matched else ReasonCode.NO_MATCHING_SUBSCRIBERS

    def forget(self, client_id: str, now: float) -> bool:
        """End a session that is not connected; False if there is none."""
        session = self.sessions.get(client_id)
        if session is None or session.link is not None:
            return False
        self._end(session, now)
        return True

    def adopt(self, sessions: Iterable[Session], retained: Iterable[Message], now: float) -> None:
        """Take over what the store held; sessions as if they lost their connection just now."""
        for message in retained:
            self.retained.adopt(message)
        for session in sessions:
            self.sessions[session.client_id] = session
            self.subscribing.adopt(session)
            if session.ends_at is None:  # connected when the broker ended
                session.ends_at = now + session.expiry_s
                if session.will is not None:
                    session.will_at = now + min(session.will_delay_s, session.expiry_s)
                session.note()
            self._arm(session)

    def _publish_will(self, session: Session, now: float) -> None:
        will = session.will
        if will is None:
            return
        session.set_will(None)
        forwarded, expires_at = split_expiry(will.properties, now)
        self.publish(
            Message(
                will.topic, will.payload, will.qos, will.retain, forwarded, will.publisher,
                expires_at,
            ),
            now,
        )  # fmt: skip

    def _arm(self, session: Session) -> None:
        """Have `expire` look at a session when its will or its end is due, with one timer."""
        due = [at for at in (session.will_at, session.ends_at) if at is not None]
        if due and (session.timer_at is None or min(due) < session.timer_at):
            session.timer_at = min(due)
            heapq.heappush(self._timers, (session.timer_at, session.client_id))

    def _end(self, session: Session, now: float) -> None:
        self._publish_will(session, now)
        del self.sessions[session.client_id]
        self.subscribing.end(session, now)
        session.end()
        self.dropped_of_ended.update(session.dropped)
