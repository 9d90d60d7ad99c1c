"""Desired state: generations, what baselines say, and what the broker does not have yet."""

from collections import Counter
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from cloud.fleet.desired_state import Desired, Situation, ordered, section_of, settled
from cloud.fleet.documents import Group, Profile
from cloud.fleet.part import Part, grouping_of, limited
from cloud.fleet.store import desired_rows, group_rows, rollout_rows, settle_rows
from cloud.fleet.store.event_rows import Line
from shared.fleet.desired import DesiredModel, DesiredProfile, Section


class Ordering(Part):
    """Raises `Malformed`, `Unavailable`."""

    def order(
        self, changes: Sequence[tuple[str, Desired]], now: float
    ) -> list[tuple[str, Desired]]:
        """Store them as desired, and give those that have to be published: with the generation that
        each then has (in the place of the one that it comes with). What is desired already and what
        is for a device that is not here is left out.
        """
        del now  # an order has no time: the log has that of what it is for
        return self._database.write(lambda connection: order(connection, changes))

    def settle(self, now: float, limit: int = 1000) -> list[tuple[str, Desired]]:
        """Look at devices that something happened to, `limit` at most: newcomers, those whose labels,
        group or baseline changed, those that a rollout let go of. Gives what has to be published.
        """
        limit = limited(limit)
        if not self._database.read(settle_rows.any_unsettled):
            return []
        return self._database.write(lambda connection: self._settle(connection, now, limit))

    def unpublished(self, limit: int = 1000) -> list[tuple[str, Desired]]:
        """Stored, but the broker's word for it was not: after a crash in between."""
        limit = limited(limit)
        return self._database.read(lambda c: desired_rows.unpublished(c, limit))

    def published(self, done: Sequence[tuple[str, Section, int]]) -> None:
        """The broker has these (device, section, generation)."""
        if done:
            self._database.write(lambda c: desired_rows.mark_published(c, done))

    def forget_published(self) -> int:
        """All desired state is unpublished again, for a broker that lost its memory; how many."""
        return self._database.write(desired_rows.mark_unpublished)

    def _settle(self, connection: Connection, now: float, limit: int) -> list[tuple[str, Desired]]:
        devices = settle_rows.unsettled(connection, limit)
        ids = [one.facts.id for one in devices]
        holders = rollout_rows.holders(connection, ids)
        parking = rollout_rows.parking(connection)
        current = desired_rows.current(connection, ids)
        groups = {group.name: group for group in group_rows.groups(connection)}
        profiles = _profiles(connection, groups)
        grouping = grouping_of(connection)
        moves: list[tuple[str, str]] = []
        changes: list[tuple[str, Desired]] = []
        for one in devices:
            device = one.facts.id
            held = frozenset(section for name, section in holders if name == device)
            group = one.group
            if not held and (belongs := grouping.group_of(one.facts)) != group:
                group = belongs
                moves.append((device, group))
            model, profile = current.get((device, "model")), current.get((device, "profile"))
            parked = frozenset(
                section_of(order)
                for order in (model, profile)
                if order is not None and parking.get(order.rollout or "") == group
            )
            situation = Situation(
                groups[group], profiles.get(group), one.facts.model or None,
                model if isinstance(model, DesiredModel) else None,
                profile if isinstance(profile, DesiredProfile) else None,
                one.seen_model, one.seen_profile, held | parked, one.revoked,
            )  # fmt: skip
            changes += [(device, order) for order in settled(situation)]
        group_rows.move(connection, moves)
        settle_rows.mark_settled(connection, ids)
        desired_rows.keep(connection, changes)
        self.log(connection, now, *_lines(changes, moves))
        return changes


def order(
    connection: Connection, changes: Sequence[tuple[str, Desired]]
) -> list[tuple[str, Desired]]:
    """In the caller's transaction; as `Ordering.order`."""
    devices = dict.fromkeys(device for device, _ in changes)
    seen = desired_rows.seen_generations(connection, devices)
    current = desired_rows.current(connection, devices)
    made: dict[tuple[str, Section], tuple[str, Desired]] = {}
    for device, new in changes:
        if (generations := seen.get(device)) is None:
            continue
        section = section_of(new)
        one: Desired | None
        if isinstance(new, DesiredModel):
            model = current.get((device, section))
            assert not isinstance(model, DesiredProfile)
            one = ordered(model, new, generations[section])
        else:
            profile = current.get((device, section))
            assert not isinstance(profile, DesiredModel)
            one = ordered(profile, new, generations[section])
        if one is not None:
            current[device, section] = one
            made[device, section] = (device, one)
    orders = list(made.values())
    desired_rows.keep(connection, orders)
    return orders


def _profiles(connection: Connection, groups: Mapping[str, Group]) -> dict[str, Profile]:
    found = {}
    for name, group in groups.items():
        if (ref := group.profile) is not None:
            profile = group_rows.profile(connection, ref.name, ref.version)
            if profile is not None:
                found[name] = profile
    return found


def _lines(changes: Sequence[tuple[str, Desired]], moves: Sequence[tuple[str, str]]) -> list[Line]:
    """One for all that are alike: a fleet may change its baseline at once."""
    orders = Counter(
        f"{one.model} {one.version}" if isinstance(one, DesiredModel)
        else f"profile {one.name} {one.version}"
        for _, one in changes
    )  # fmt: skip
    groups = Counter(group for _, group in moves)
    return [
        *(Line("regrouped", "fleet", f"{n} devices to {name}") for name, n in sorted(groups.items())),
        *(Line("ordered", "fleet", f"{words} to {n} devices, as their groups have it")
          for words, n in sorted(orders.items())),
    ]  # fmt: skip
