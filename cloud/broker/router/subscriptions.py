"""Who gets a topic: a tree of filters, and a cache of its answers per topic (4.7, 4.8). Pure."""

from dataclasses import dataclass, field
from typing import Final

from cloud.broker.codec.packets import Qos, Subscription
from cloud.broker.codec.topics import Shared, matches

CACHED_TOPICS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A subscription and its identifier, 0 for none (3.8.2.1.2)."""

    subscription: Subscription
    identifier: int = 0
    denied: tuple[str, ...] = ()
    """Filters within it whose messages this client may not read."""

    def brings(self, topic: str) -> bool:
        """Whether a message of a topic that the filter matches may be read."""
        return not self.denied or not any(matches(one, topic) for one in self.denied)


@dataclass(frozen=True, slots=True)
class Route:
    """One client's overlapping subscriptions to a topic as one: a message is sent once (3.3.4)."""

    client_id: str
    qos: Qos
    no_local: bool
    retain_as_published: bool
    identifiers: tuple[int, ...]


@dataclass(slots=True)
class ShareGroup:
    """Members of `$share/group/filter`; `turns` orders those with equal load, oldest first."""

    share: Shared
    members: dict[str, Wanted] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Matches:
    """What a topic matches."""

    routes: tuple[Route, ...]
    groups: tuple[ShareGroup, ...]


class _Node:
    """A level of filters. Most hold no subscription, so its places are made when they are needed."""

    __slots__ = ("children", "clients", "groups")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.clients: dict[str, Wanted] | None = None
        self.groups: dict[str, ShareGroup] | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.children or self.clients or self.groups)


class SubscriptionTree:
    """Filters of all sessions. A change empties the cache, so an answer is never stale."""

    def __init__(self) -> None:
        """Start without subscriptions."""
        self._root = _Node()
        self._cache: dict[str, Matches] = {}
        self.node_count = 0
        """Levels of filters held; filters that begin alike share theirs."""

    def add(self, client_id: str, topic_filter: str, wanted: Wanted) -> bool:
        """Subscribe or replace (3.8.4-3); True if it is new."""
        node = self._made(topic_filter)
        if node.clients is None:
            node.clients = {}
        is_new = client_id not in node.clients
        node.clients[client_id] = wanted
        return is_new

    def remove(self, client_id: str, topic_filter: str) -> None:
        """Unsubscribe; does nothing if it was not subscribed."""
        path = self._path(topic_filter)
        if path and path[-1][1].clients:
            path[-1][1].clients.pop(client_id, None)
            self._prune(path)

    def join(self, client_id: str, share: Shared, wanted: Wanted) -> ShareGroup:
        """Become a member of a share group, or change the options of one."""
        node = self._made(share.topic_filter)
        if node.groups is None:
            node.groups = {}
        group = node.groups.setdefault(share.group, ShareGroup(share))
        group.members[client_id] = wanted
        group.turns.setdefault(client_id, 0)
        return group

    def leave(self, client_id: str, share: Shared) -> None:
        """Leave a share group; the last member takes the group along."""
        path = self._path(share.topic_filter)
        groups = path[-1][1].groups if path else None
        group = groups.get(share.group) if groups is not None else None
        if group is not None and groups is not None:
            group.members.pop(client_id, None)
            group.turns.pop(client_id, None)
            if not group.members:
                del groups[share.group]
            self._prune(path)

    def group(self, share: Shared) -> ShareGroup | None:
        """Find a share group by its name and filter."""
        path = self._path(share.topic_filter)
        groups = path[-1][1].groups if path else None
        return groups.get(share.group) if groups is not None else None

    def match(self, topic: str) -> Matches:
        """Find everyone who subscribed to this topic name."""
        found = self._cache.get(topic)
        if found is None:
            if len(self._cache) >= CACHED_TOPICS_MAX:
                self._cache.clear()
            found = self._cache[topic] = self._match(topic)
        return found

    def _match(self, topic: str) -> Matches:
        levels = topic.split("/")
        ends: list[_Node] = []
        nodes = [self._root]
        for index, level in enumerate(levels):
            wild = index > 0 or not level.startswith("$")  # 4.7.2-1
            below: list[_Node] = []
            for node in nodes:
                if (exact := node.children.get(level)) is not None:
                    below.append(exact)
                if wild and (any_level := node.children.get("+")) is not None:
                    below.append(any_level)
                if wild and (rest := node.children.get("#")) is not None:
                    ends.append(rest)
            nodes = below
        for node in nodes:
            ends.append(node)
            if (rest := node.children.get("#")) is not None:  # the parent level too (4.7.1.2)
                ends.append(rest)
        wanted: dict[str, list[Wanted]] = {}
        for node in ends:
            for client_id, one in node.clients.items() if node.clients else ():
                if one.brings(topic):
                    wanted.setdefault(client_id, []).append(one)
        routes = tuple(_merged(client_id, several) for client_id, several in wanted.items())
        groups = (group for node in ends if node.groups for group in node.groups.values())
        return Matches(routes, tuple(groups))

    def _made(self, topic_filter: str) -> _Node:
        self._cache.clear()
        node = self._root
        for level in topic_filter.split("/"):
            below = node.children.get(level)
            if below is None:
                below = node.children[level] = _Node()
                self.node_count += 1
            node = below
        return node

    def _path(self, topic_filter: str) -> list[tuple[str, _Node]]:
        path = [("", self._root)]
        for level in topic_filter.split("/"):
            node = path[-1][1].children.get(level)
            if node is None:
                return []
            path.append((level, node))
        return path

    def _prune(self, path: list[tuple[str, _Node]]) -> None:
        self._cache.clear()
        for index in range(len(path) - 1, 0, -1):
            level, node = path[index]
            if not node.is_empty:
                return
            del path[index - 1][1].children[level]
            self.node_count -= 1


def _merged(client_id: str, several: list[Wanted]) -> Route:
    subscriptions = [one.subscription for one in several]
    return Route(
        client_id,
        max(one.qos for one in subscriptions),
        no_local=all(one.no_local for one in subscriptions),
        retain_as_published=any(one.retain_as_published for one in subscriptions),
        identifiers=tuple(one.identifier for one in several if one.identifier),
    )
