"""Groups, what they have, and the versions of device profiles."""

from typing import Final

from sqlalchemy import Connection

from cloud.fleet.bounds import checked_actor, checked_words, is_name, made, shown
from cloud.fleet.documents import EVERYBODY, Baseline, Group, Profile, ProfileRef
from cloud.fleet.part import Part, grouping_of, known_group, regroup, same_revision
from cloud.fleet.selector_parser import parse_for_group
from cloud.fleet.store import device_rows, group_rows, rollout_rows
from cloud.fleet.store.event_rows import Line
from shared.errors import Conflict, Malformed, Overloaded, Unknown
from shared.fleet.profile import ProfileSettings, digest

MODELS_MAX: Final = 100
"""Of one group."""


class GroupChanges(Part):
    """Each call is one transaction with its line in the log.

    Raises `Unknown`, `Malformed`, `Conflict`, `Overloaded`, `Unavailable`.
    """

    def put_group(self, group: Group, actor: str, now: float, revision: int | None = None) -> Group:
        """Make it, or give it another selector or priority. What it has (`models`, `profile`) stays:
        that is changed by a rollout, or by `set_baseline` and `set_group_profile`.

        `revision` is that of the one to replace, 0 where there must be none. Refused where it would
        move a device of an active rollout, which is named.
        """
        checked_actor(actor)
        parse_for_group(group.selector)
        if group.name == EVERYBODY and group.selector:
            raise Malformed(f"group {EVERYBODY} has those that no other takes: it has no selector")

        def change(connection: Connection) -> Group:
            present = group_rows.group(connection, group.name)
            if revision is not None:
                is_there = present is not None and present.revision
                same_revision(int(is_there), revision, f"group {group.name}")
            if present is None:
                if len(group_rows.groups(connection)) >= self._settings.groups_max:
                    raise Overloaded(f"there are {self._settings.groups_max} groups; remove one")
                new = group.model_copy(update={"models": {}, "profile": None, "revision": 1})
            else:
                new = present.model_copy(update={
                    "selector": group.selector, "priority": group.priority,
                    "revision": present.revision + 1,
                })  # fmt: skip
                if (new.selector, new.priority) == (present.selector, present.priority):
                    return present
            group_rows.put(connection, new)
            moved = regroup(
                connection, list(device_rows.facts(connection)), grouping_of(connection)
            )
            words = f"{new.name}: {new.selector or 'every device'}, priority {new.priority}"
            self.log(connection, now, Line("group", actor, f"{words}; {moved} devices moved"))
            return new

        return self._database.write(change)

    def remove_group(
        self, name: str, actor: str, now: float, revision: int | None = None, why: str = ""
    ) -> None:
        """Its devices go where other selectors take them. Refused while it has a rollout."""
        checked_actor(actor)
        checked_words(why, "the comment")
        if name == EVERYBODY:
            raise Conflict(f"group {EVERYBODY} is always there")

        def change(connection: Connection) -> None:
            present = known_group(connection, name)
            same_revision(present.revision, revision, f"group {name}")
            self._no_rollout(connection, name)
            rollout_rows.unpark_group(connection, name)
            group_rows.remove(connection, name)
            moved = regroup(
                connection, list(device_rows.facts(connection)), grouping_of(connection)
            )
            words = f"{name}; {moved} devices moved: {why or 'no reason'}"
            self.log(connection, now, Line("group_removed", actor, words))

        self._database.write(change)

    def set_baseline(
        self, group: str, model: str, baseline: Baseline, actor: str, now: float,
        revision: int | None = None,
    ) -> Group:  # fmt: skip
        """What the group's devices with that model have when no rollout moves them. An operator's
        override: refused while a rollout of the model runs there.
        """
        checked_actor(actor)
        if not is_name(model):
            raise Malformed(f"model {shown(model)}: use 1 to 64 of a-z, 0-9 and '-'")

        def change(connection: Connection) -> Group:
            present = known_group(connection, group)
            same_revision(present.revision, revision, f"group {group}")
            for rollout in rollout_rows.active_in(connection, group, "model", model):
                raise Conflict(
                    f"rollout {rollout} moves {model} in group {group}; wait for it, or abort it"
                )
            return set_model(connection, present, model, baseline, self, actor, now)

        return self._database.write(change)

    def set_group_profile(
        self, group: str, ref: ProfileRef | None, actor: str, now: float,
        revision: int | None = None,
    ) -> Group:  # fmt: skip
        """Which profile its devices have when no rollout moves them. None: newcomers get none, and
        who has one keeps it: to go back, push a version without settings.
        """
        checked_actor(actor)

        def change(connection: Connection) -> Group:
            present = known_group(connection, group)
            same_revision(present.revision, revision, f"group {group}")
            if ref is not None and group_rows.profile(connection, ref.name, ref.version) is None:
                raise Unknown(f"there is no profile {shown(ref.name)} {ref.version}; push it first")
            for rollout in rollout_rows.active_in(connection, group, "profile"):
                raise Conflict(
                    f"rollout {rollout} moves profiles in group {group}; wait for it, or abort it"
                )
            return set_profile(connection, present, ref, self, actor, now)

        return self._database.write(change)

    def push_profile(
        self, name: str, version: int, settings: ProfileSettings, actor: str, now: float
    ) -> Profile:
        """Immutable: the same again is fine, another content under the same version is refused."""
        checked_actor(actor)
        profile = made(
            Profile, name=name, version=version, sha256=digest(settings), settings=settings,
            pushed_by=actor, pushed_at=now,
        )  # fmt: skip

        def change(connection: Connection) -> Profile:
            if (present := group_rows.profile(connection, name, version)) is not None:
                if present.sha256 != profile.sha256:
                    raise Conflict(
                        f"profile {name} {version} is there with other settings, and devices may "
                        f"have it; push version {group_rows.profiles(connection, name)[-1].version + 1}"
                    )
                return present
            if group_rows.profiles_count(connection) >= self._settings.profiles_max:
                raise Overloaded(f"there are {self._settings.profiles_max} versions of profiles")
            group_rows.add_profile(connection, profile)
            words = f"{name} {version}, {profile.sha256[:12]}"
            self.log(connection, now, Line("profile_pushed", actor, words))
            return profile

        return self._database.write(change)

    def _no_rollout(self, connection: Connection, group: str) -> None:
        for rollout in rollout_rows.active_in(connection, group):
            raise Conflict(f"rollout {rollout} runs in group {group}; wait for it, or abort it")


def set_model(
    connection: Connection, group: Group, model: str, baseline: Baseline, part: Part, actor: str,
    now: float,
) -> Group:  # fmt: skip
    """In the caller's transaction. Devices that an aborted rollout left as they are go along."""
    rollout_rows.unpark(connection, group.name, "model", model)
    if group.models.get(model) == baseline:
        group_rows.mark_unsettled(connection, group.name)
        return group
    models = dict(sorted({**group.models, model: baseline}.items()))
    if len(models) > MODELS_MAX:
        raise Overloaded(f"group {group.name} has {MODELS_MAX} models; use another group")
    new = made(Group, **{**dict(group), "models": models, "revision": group.revision + 1})
    words = f"{group.name} has {model} {baseline.version}, {baseline.manifest_sha256[:12]}"
    return _put(connection, new, part, Line("baseline", actor, words), now)


def set_profile(
    connection: Connection, group: Group, ref: ProfileRef | None, part: Part, actor: str, now: float
) -> Group:
    """In the caller's transaction. Devices that an aborted rollout left as they are go along."""
    rollout_rows.unpark(connection, group.name, "profile", "")
    if group.profile == ref:
        group_rows.mark_unsettled(connection, group.name)
        return group
    new = group.model_copy(update={"profile": ref, "revision": group.revision + 1})
    words = f"{group.name} has {f'{ref.name} {ref.version}' if ref else 'no profile'}"
    return _put(connection, new, part, Line("group_profile", actor, words), now)


def _put(connection: Connection, group: Group, part: Part, line: Line, now: float) -> Group:
    group_rows.put(connection, group)
    group_rows.mark_unsettled(connection, group.name)
    part.log(connection, now, line)
    return group
