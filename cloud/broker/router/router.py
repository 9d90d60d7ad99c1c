"""All sessions and who gets what: routing, share groups, wills, expiry. Pure.

Share groups (4.8.2): a message goes to the connected member with the fewest messages pending. What
a member has not acknowledged when its connection ends is handed to another one at once; if none is
connected it stays in a session that outlives its connection, and the next member to come gets it.
"""

import heapq
from collections import Counter
from collections.abc import Callable

from cloud.broker.codec.packets import Qos, Subscription
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.codec.topics import Shared, is_filter, split_shared
from cloud.broker.limits import Limits
from cloud.broker.router.retained import RetainedMessages
from cloud.broker.router.subscriptions import ShareGroup, SubscriptionTree, Wanted
from cloud.broker.session.messages import Delivery, Drop, Message
from cloud.broker.session.session import Budget, Link, Session


class Router:
    """State of the whole broker; `now` is seconds on any clock that never goes back."""

    def __init__(self, limits: Limits, new_client_id: Callable[[], str]) -> None:
        """Start empty; `new_client_id` names clients that come without a name (3.1.3.1)."""
        self.limits = limits
        self.new_client_id = new_client_id
        self.sessions: dict[str, Session] = {}
        self.tree = SubscriptionTree()
        self.retained = RetainedMessages(limits.retained_max, limits.retained_bytes_max)
        self.budget = Budget(limits.queued_bytes_max_total)
        self.dropped_of_ended: Counter[Drop] = Counter()
        self._timers: list[tuple[float, str]] = []

    def dropped(self) -> Counter[Drop]:
        """Messages given up since the start, by reason."""
        total = Counter(self.dropped_of_ended)
        for session in self.sessions.values():
            total.update(session.dropped)
        return total

    def open(
        self, client_id: str, link: Link, now: float, *, clean: bool, expiry_s: float, window: int
    ) -> tuple[Session, bool]:
        """Start or resume a session (3.1.2.4), taking it over from another connection.

        Returns the session and whether it was present. Raises `BrokenRule` 0x97 when the broker
        is full.
        """
        session = self.sessions.get(client_id)
        if session is not None and session.link is not None:
            session.link.take_over(now)
            session = self.sessions.get(client_id)
        if session is not None and clean:
            self._end(session, now)
            session = None
        present = session is not None
        if session is None:
            if len(self.sessions) >= self.limits.sessions_max:
                raise BrokenRule(ReasonCode.QUOTA_EXCEEDED, "no room for another session")
            session = Session(client_id, self.limits.queued_bytes_max, self.budget)
            self.sessions[client_id] = session
        session.expiry_s = expiry_s
        session.attach(link, window)
        for share in session.shares:
            self._collect(share, now)
        return session, present

    def close(self, session: Session, will: tuple[Message, float] | None, now: float) -> None:
        """Lose a session's connection; `will` is its message and delay in seconds."""
        session.detach()
        for delivery in session.withdraw_shared():
            if not self._share_out(delivery, now, without=session.client_id, online_only=True):
                session.put_back(delivery)
        if session.expiry_s <= 0:
            if will is not None:
                self.publish(will[0], now)
            self._end(session, now)
            return
        session.ends_at = now + session.expiry_s
        if will is not None and min(will[1], session.expiry_s) <= 0:
            self.publish(will[0], now)
        elif will is not None:
            session.will, session.will_at = will[0], now + min(will[1], session.expiry_s)
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
            if session.will is not None and session.will_at is not None and session.will_at <= now:
                will, session.will, session.will_at = session.will, None, None
                self.publish(will, now)
            if session.ends_at is not None and session.ends_at <= now:
                self._end(session, now)
            else:
                self._arm(session)

    def subscribe(
        self, session: Session, wanted: Subscription, identifier: int, now: float
    ) -> ReasonCode | Qos:
        """Add one topic filter; retained messages follow as its options ask (3.8.3.1)."""
        topic_filter = wanted.topic_filter
        try:
            share = split_shared(topic_filter)
        except BrokenRule as error:
            return error.reason
        if share is None and not is_filter(topic_filter):
            return ReasonCode.TOPIC_FILTER_INVALID
        is_new = topic_filter not in session.subscriptions
        if is_new and len(session.subscriptions) >= self.limits.subscriptions_max:
            return ReasonCode.QUOTA_EXCEEDED
        session.subscriptions[topic_filter] = wanted
        if share is not None:
            self.tree.join(session.client_id, share, Wanted(wanted, identifier))
            self._collect(share, now)
            return wanted.qos
        self.tree.add(session.client_id, topic_filter, Wanted(wanted, identifier))
        if wanted.retain_handling == 0 or (wanted.retain_handling == 1 and is_new):
            identifiers = (identifier,) if identifier else ()
            for message in self.retained.matching(topic_filter, now):
                qos = min(message.qos, wanted.qos)
                session.enqueue(
                    Delivery(message, qos, True, identifiers, None, message.size_bytes),
                    now,
                )
        return wanted.qos

    def unsubscribe(self, session: Session, topic_filter: str, now: float) -> ReasonCode:
        """Remove one topic filter (3.10.4)."""
        if session.subscriptions.pop(topic_filter, None) is None:
            return ReasonCode.NO_SUBSCRIPTION_EXISTED
        share = split_shared(topic_filter)
        if share is None:
            self.tree.remove(session.client_id, topic_filter)
        else:
            self._leave(session, share, now)
        return ReasonCode.SUCCESS

    def publish(self, message: Message, now: float) -> int:
        """Retain and route a message; the reason code for its publisher (3.4.2.1).

        0x10 if nobody subscribed, 0x97 if it was to be kept (retained, or QoS>0 for a session) and
        nobody had room. Over 3.1.1 there is no way to say either: it is counted only.
        """
        refused = False
        if message.retain:
            refused = not self.retained.store(message, now)
        matches = self.tree.match(message.topic)
        matched = accepted = 0
        size_bytes = message.size_bytes
        for route in matches.routes:
            if route.no_local and route.client_id == message.publisher:
                continue
            matched += 1
            retain = message.retain and route.retain_as_published
            qos = min(message.qos, route.qos)
            delivery = Delivery(message, qos, retain, route.identifiers, None, size_bytes)
            accepted += self.sessions[route.client_id].enqueue(delivery, now) or not qos
        for group in matches.groups:
            matched += 1
            accepted += self._to_group(group, message, now) or not message.qos
        if refused or (matched and not accepted):
            return ReasonCode.QUOTA_EXCEEDED
        return 0 if matched else ReasonCode.NO_MATCHING_SUBSCRIBERS

    def _to_group(
        self,
        group: ShareGroup,
        message: Message,
        now: float,
        without: str = "",
        *,
        online_only: bool = False,
    ) -> bool:
        """Give a message to the least loaded member that takes it."""
        sessions = self.sessions

        def rank(client_id: str) -> tuple[bool, int, int]:
            session = sessions[client_id]
            return session.link is None, session.pending, group.turns[client_id]

        members = [one for one in group.members if one != without]
        refused: tuple[Session, Drop] | None = None
        while members:
            client_id = min(members, key=rank)
            session, wanted = sessions[client_id], group.members[client_id]
            qos = min(message.qos, wanted.subscription.qos)
            if online_only and session.link is None:
                break
            retain = message.retain and wanted.subscription.retain_as_published
            identifiers = (wanted.identifier,) if wanted.identifier else ()
            delivery = Delivery(message, qos, retain, identifiers, group.share, message.size_bytes)
            why = session.offer(delivery, now)
            if why is None:
                group.turn += 1
                group.turns[client_id] = group.turn
                return True
            refused = refused or (session, why)
            members.remove(client_id)
        if refused is not None and not online_only:
            refused[0].dropped[refused[1]] += 1
        return False

    def _arm(self, session: Session) -> None:
        """Have `expire` look at a session when its will or its end is due, with one timer."""
        due = [at for at in (session.will_at, session.ends_at) if at is not None]
        if due and (session.timer_at is None or min(due) < session.timer_at):
            session.timer_at = min(due)
            heapq.heappush(self._timers, (session.timer_at, session.client_id))

    def _share_out(
        self, delivery: Delivery, now: float, without: str, *, online_only: bool
    ) -> bool:
        group = self.tree.group(delivery.share) if delivery.share is not None else None
        return group is not None and self._to_group(
            group, delivery.message, now, without, online_only=online_only
        )

    def _collect(self, share: Shared, now: float) -> None:
        """Somebody of the group is connected now: share out what waits with those who are not."""
        group = self.tree.group(share)
        for client_id in list(group.members) if group is not None else ():
            session = self.sessions[client_id]
            if session.link is None:
                for delivery in session.withdraw_shared(share):
                    if not self._share_out(delivery, now, client_id, online_only=True):
                        session.put_back(delivery)

    def _leave(self, session: Session, share: Shared, now: float) -> None:
        self.tree.leave(session.client_id, share)
        if session.link is not None:
            return  # what it has in flight it may still acknowledge (3.10.4)
        for delivery in session.withdraw_shared(share):
            if not self._share_out(delivery, now, session.client_id, online_only=False):
                session.put_back(delivery)

    def _end(self, session: Session, now: float) -> None:
        if session.will is not None:
            will, session.will = session.will, None
            self.publish(will, now)
        del self.sessions[session.client_id]
        for topic_filter in session.subscriptions:
            if not topic_filter.startswith("$share/"):
                self.tree.remove(session.client_id, topic_filter)
        for share in session.shares:
            self._leave(session, share, now)
        session.end()
        self.dropped_of_ended.update(session.dropped)
