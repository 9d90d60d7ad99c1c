"""Who has subscribed to what: granting, ending and restoring subscriptions (3.8, 3.10). Pure."""

from collections import Counter
from typing import Final

from cloud.broker.access.rules import Rules
from cloud.broker.codec.packets import Qos, Subscription
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.codec.topics import is_filter, split_shared
from cloud.broker.limits import Limits
from cloud.broker.router.retained import RetainedMessages
from cloud.broker.router.sharing import Sharing
from cloud.broker.router.subscriptions import SubscriptionTree, Wanted
from cloud.broker.session.inflight import Retrieval
from cloud.broker.session.messages import Delivery, Drop
from cloud.broker.session.session import Session

USERS_SHARE: Final = 0.25
"""Of `subscription_nodes_max`, for the sessions of one user together."""


class Subscribing:
    """Keeps sessions and the tree of filters in step."""

    def __init__(
        self,
        limits: Limits,
        tree: SubscriptionTree,
        sharing: Sharing,
        retained: RetainedMessages,
    ) -> None:
        """Work on the router's own tree, share groups and retained messages."""
        self._limits, self._tree = limits, tree
        self._sharing, self._retained = sharing, retained
        self._levels: Counter[str] = Counter()
        """Levels of each user's filters: nobody with a name takes the room of all others."""

    def subscribe(
        self,
        session: Session,
        wanted: Subscription,
        identifier: int,
        now: float,
        denied: tuple[str, ...] = (),
    ) -> ReasonCode | Qos:
        """Add one topic filter; retained messages follow as its options ask (3.8.3.1).

        Nothing whose topic one of `denied` matches is delivered.
        """
        topic_filter = wanted.topic_filter
        try:
            share = split_shared(topic_filter)
        except BrokenRule as error:
            return error.reason
        if share is None and not is_filter(topic_filter):
            return ReasonCode.TOPIC_FILTER_INVALID
        if topic_filter.count("/") >= self._limits.topic_levels_max + (2 if share else 0):
            return ReasonCode.TOPIC_FILTER_INVALID
        is_new = topic_filter not in session.subscriptions
        if is_new and not self._has_room(session, topic_filter):
            return ReasonCode.QUOTA_EXCEEDED
        if is_new:
            self._count_levels(session, topic_filter, 1)
        session.subscribe(wanted, identifier)
        entry = Wanted(wanted, identifier, denied)
        if share is not None:
            self._tree.join(session.client_id, share, entry)
            self._sharing.collect(share, now)
            return wanted.qos
        self._tree.add(session.client_id, topic_filter, entry)
        if wanted.retain_handling == 0 or (wanted.retain_handling == 1 and is_new):
            retrieval = self._retrieval(session, entry)
            next(retrieval)
            session.retrievals.append(retrieval)
            if session.link is not None:
                session.link.wake()
        return wanted.qos

    def unsubscribe(self, session: Session, topic_filter: str, now: float) -> ReasonCode:
        """Remove one topic filter (3.10.4)."""
        if not session.unsubscribe(topic_filter):
            return ReasonCode.NO_SUBSCRIPTION_EXISTED
        self._count_levels(session, topic_filter, -1)
        share = split_shared(topic_filter)
        if share is None:
            self._tree.remove(session.client_id, topic_filter)
        else:
            self._sharing.leave(session, share, now)
        return ReasonCode.SUCCESS

    def adopt(self, session: Session) -> None:
        """Enter the subscriptions of a session that the store held."""
        for topic_filter, (wanted, identifier) in session.subscriptions.items():
            self._count_levels(session, topic_filter, 1)
            share = split_shared(topic_filter)
            if share is None:
                self._tree.add(session.client_id, topic_filter, Wanted(wanted, identifier))
            else:
                self._tree.join(session.client_id, share, Wanted(wanted, identifier))

    def end(self, session: Session, now: float) -> None:
        """Take out a session that ends; what it holds of share groups goes to others."""
        for topic_filter in session.subscriptions:
            self._count_levels(session, topic_filter, -1)
            if not topic_filter.startswith("$share/"):
                self._tree.remove(session.client_id, topic_filter)
        self._sharing.end(session, now)

    def judge(self, session: Session, rules: Rules, now: float) -> None:
        """Hold a session to rules read anew: end subscriptions and will, drop what waits."""
        reading = rules.reading
        if session.will is not None and not rules.may_publish(session.will.topic):
            session.set_will(None)
            session.note()
        for topic_filter, (wanted, identifier) in list(session.subscriptions.items()):
            share = split_shared(topic_filter)
            denied = reading(share.topic_filter if share is not None else topic_filter)
            if denied is None:
                self.unsubscribe(session, topic_filter, now)
                continue
            entry = Wanted(wanted, identifier, denied)
            if share is None:
                self._tree.add(session.client_id, topic_filter, entry)
            else:
                self._tree.join(session.client_id, share, entry)
        known: dict[str, bool] = {}

        def may_read(delivery: Delivery) -> bool:
            topic = delivery.message.topic
            if topic not in known:
                known[topic] = reading(topic) == ()
            return known[topic]

        session.drop_unless(may_read, Drop.NOT_AUTHORIZED)

    def _retrieval(self, session: Session, entry: Wanted) -> Retrieval:
        """Look up retained messages for a subscription, for as long as it stands as it is."""
        wanted = entry.subscription
        held = wanted, entry.identifier
        identifiers = (entry.identifier,) if entry.identifier else ()
        search = self._retained.search(wanted.topic_filter)
        next(search)
        now = yield None
        while session.subscriptions.get(wanted.topic_filter) == held:
            try:
                message = search.send(now)
            except StopIteration:
                return
            if message is None or not entry.brings(message.topic):
                now = yield None
                continue
            qos = min(message.qos, wanted.qos)
            now = yield Delivery(message, qos, True, identifiers, None, message.size_bytes)

    def _has_room(self, session: Session, topic_filter: str) -> bool:
        """Say whether one more filter stays within all bounds."""
        limits, username = self._limits, session.username
        if len(session.subscriptions) >= limits.subscriptions_max:
            return False
        if self._tree.node_count >= limits.subscription_nodes_max:
            return False
        if username is None:
            return True
        levels = self._levels[username] + topic_filter.count("/") + 1
        return levels <= limits.subscription_nodes_max * USERS_SHARE

    def _count_levels(self, session: Session, topic_filter: str, sign: int) -> None:
        username = session.username
        if username is not None:
            self._levels[username] += sign * (topic_filter.count("/") + 1)
            if not self._levels[username]:
                del self._levels[username]
