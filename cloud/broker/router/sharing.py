"""Share groups (4.8.2): who of a group gets a message, and who gets it when that one goes. Pure.

A message goes to the connected member with the fewest messages pending. What a member has not
acknowledged when its connection ends is handed to another one at once; if none is connected it
stays in a session that outlives its connection, and the next member to come gets it. A message is
as durable as the session of the member that it was given to.
"""

from cloud.broker.codec.topics import Shared
from cloud.broker.router.subscriptions import ShareGroup, SubscriptionTree
from cloud.broker.session.messages import Delivery, Drop, Message
from cloud.broker.session.session import Session


class Sharing:
    """Hands messages to the members of groups in `tree`, whose sessions are in `sessions`."""

    def __init__(self, sessions: dict[str, Session], tree: SubscriptionTree) -> None:
        """Work on the router's own sessions and subscriptions."""
        self._sessions = sessions
        self._tree = tree

    def give(
        self,
        group: ShareGroup,
        message: Message,
        now: float,
        without: str = "",
        *,
        online_only: bool = False,
    ) -> bool:
        """Give a message to the least loaded member that takes it."""
        sessions = self._sessions

        def rank(client_id: str) -> tuple[bool, int, int]:
            session = sessions[client_id]
            return session.link is None, session.pending, group.turns[client_id]

        members = [
            client_id
            for client_id, wanted in group.members.items()
            if client_id != without and wanted.brings(message.topic)
        ]
        refused: tuple[Session, Drop] | None = None
        while members:
            client_id = min(members, key=rank)
            session, wanted = sessions[client_id], group.members[client_id]
            if online_only and session.link is None:
                break
            qos = min(message.qos, wanted.subscription.qos)
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

    def hand_on(self, session: Session, now: float) -> None:
        """A member lost its connection: what it holds goes to others that are connected."""
        self._pass(session, now, online_only=True)

    def collect(self, share: Shared, now: float) -> None:
        """Somebody of the group is connected now: share out what waits with those who are not."""
        group = self._tree.group(share)
        for client_id in list(group.members) if group is not None else ():
            session = self._sessions[client_id]
            if session.link is None:
                self._pass(session, now, share, online_only=True)

    def leave(self, session: Session, share: Shared, now: float) -> None:
        """End a membership; what waits goes to the others."""
        self._tree.leave(session.client_id, share)
        if session.link is None:  # else it may still acknowledge what it has in flight (3.10.4)
            self._pass(session, now, share, online_only=False)

    def end(self, session: Session, now: float) -> None:
        """A session ends: what it holds of any group, left or not, goes to the others."""
        for share in session.shares:
            self._tree.leave(session.client_id, share)
        self._pass(session, now, online_only=False)

    def _pass(
        self, session: Session, now: float, share: Shared | None = None, *, online_only: bool
    ) -> None:
        def give(delivery: Delivery) -> bool:
            assert delivery.share is not None
            group = self._tree.group(delivery.share)
            return group is not None and self.give(
                group, delivery.message, now, session.client_id, online_only=online_only
            )

        session.hand_over(give, share)
