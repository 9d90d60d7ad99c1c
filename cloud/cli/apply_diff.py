"""What a `fleet.yaml` changes of a fleet as it is. Pure: the same twice gives nothing the second time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from cloud.cli.apply_file import Declared, DeclaredBaseline, DeclaredGroup, DeclaredRollout
from cloud.cli.rollout_drawing import subject_text
from cloud.fleet.documents import EVERYBODY, Device, Group, Profile, ProfileRef
from cloud.rollouts.documents import ModelSubject, RolloutStatus, RolloutView
from shared.errors import Conflict, Unknown
from shared.fleet.profile import ProfileSettings, digest

Sign = Literal["+", "~", "-", "!"]
"""Made, changed, removed; and what stays as it is, which somebody may not expect."""
_LIVE: Final = frozenset({RolloutStatus.RUNNING, RolloutStatus.PAUSED})
_STOPPED: Final = frozenset({RolloutStatus.ABORTED, RolloutStatus.ROLLED_BACK})


@dataclass(frozen=True, slots=True)
class Found:
    """The fleet as it is: of devices, those that the file names."""

    groups: Mapping[str, Group] = field(default_factory=dict)
    profiles: Sequence[Profile] = ()
    devices: Mapping[str, Device] = field(default_factory=dict)
    rollouts: Sequence[RolloutView] = ()


@dataclass(frozen=True, slots=True)
class PushProfile:
    name: str
    version: int
    settings: ProfileSettings

    @property
    def line(self) -> tuple[Sign, str]:
        said = self.settings.model_dump(mode="json", exclude_none=True)
        return "+", f"profile {self.name} {self.version}: {_members(said)}"


@dataclass(frozen=True, slots=True)
class PutGroup:
    name: str
    selector: str
    priority: int
    before: Group | None

    @property
    def line(self) -> tuple[Sign, str]:
        if self.before is None:
            shown = self.selector or "every device"
            return "+", f"group {self.name}: selector {shown}, priority {self.priority}"
        said = []
        if self.before.selector != self.selector:
            said.append(f"selector {_or_all(self.before.selector)} -> {_or_all(self.selector)}")
        if self.before.priority != self.priority:
            said.append(f"priority {self.before.priority} -> {self.priority}")
        return "~", f"group {self.name}: {', '.join(said)}"


@dataclass(frozen=True, slots=True)
class SetBaseline:
    group: str
    model: str
    baseline: DeclaredBaseline
    before: str | None
    revision: int
    """Of the group; 0 where there is none yet."""

    @property
    def line(self) -> tuple[Sign, str]:
        was = "" if self.before is None else f"{self.before} -> "
        text = f"group {self.group}: {self.model} {was}{self.baseline.version}, without a rollout"
        return "+" if self.before is None else "~", text


@dataclass(frozen=True, slots=True)
class SetProfile:
    group: str
    profile: ProfileRef
    before: ProfileRef | None
    revision: int
    """Of the group; 0 where there is none yet."""

    @property
    def line(self) -> tuple[Sign, str]:
        was = "" if self.before is None else f"{self.before.name} {self.before.version} -> "
        text = f"profile {was}{self.profile.name} {self.profile.version}, without a rollout"
        return "+" if self.before is None else "~", f"group {self.group}: {text}"


@dataclass(frozen=True, slots=True)
class SetLabels:
    device: str
    labels: Mapping[str, str]
    before: Mapping[str, str]
    revision: int

    @property
    def line(self) -> tuple[Sign, str]:
        said = [f"-{name}" for name in sorted(self.before) if name not in self.labels]
        for name, value in sorted(self.labels.items()):
            if name not in self.before:
                said.append(f"+{name}={value}")
            elif self.before[name] != value:
                said.append(f"{name}={self.before[name]} -> {value}")
        return "~", f"device {self.device}: {', '.join(said)}"


@dataclass(frozen=True, slots=True)
class StartRollout:
    what: str
    request: Mapping[str, object]
    draft: RolloutView | None

    @property
    def line(self) -> tuple[Sign, str]:
        group = self.request.get("group")
        if self.draft is not None:
            return "~", f"rollout {self.draft.id}: {self.what} -> group {group}: draft -> started"
        return "+", f"rollout {self.what} -> group {group}"


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    group: Group

    @property
    def line(self) -> tuple[Sign, str]:
        return "-", f"group {self.group.name}: its devices go to the next that takes them"


@dataclass(frozen=True, slots=True)
class Stays:
    """Nothing is done, and why."""

    text: str

    @property
    def line(self) -> tuple[Sign, str]:
        return "!", self.text


Change = (
    PushProfile
    | PutGroup
    | SetBaseline
    | SetProfile
    | SetLabels
    | StartRollout
    | RemoveGroup
    | Stays
)


def changes(declared: Declared, found: Found, *, prune: bool = False) -> list[Change]:
    """In the order in which they are to be done: what others need comes first.

    `prune`: groups that the file does not name go. Raises `Unknown` and `Conflict` for what cannot
    be done, before anything is.
    """
    return [
        *_profiles(declared, found),
        *_groups(declared, found),
        *_labels(declared, found),
        *_overrides(declared, found),
        *(_rollout(one, found) for one in declared.rollouts if not _is_there(one, found)),
        *(_removed(declared, found) if prune else ()),
    ]


def is_nothing(wanted: Sequence[Change]) -> bool:
    """Whether none of them changes anything."""
    return all(isinstance(one, Stays) for one in wanted)


def _profiles(declared: Declared, found: Found) -> Iterator[Change]:
    known = {(one.name, one.version): one.sha256 for one in found.profiles}
    for name, versions in declared.profiles.items():
        for version, settings in versions.items():
            sha256 = known.get((name, version))
            if sha256 is None:
                yield PushProfile(name, version, settings)
            elif sha256 != digest(settings):
                raise Conflict(
                    f"profile {name} {version}: is there with other settings, and a version never "
                    f"changes; give yours the next number"
                )


def _groups(declared: Declared, found: Found) -> Iterator[Change]:
    for name, group in declared.groups.items():
        before = found.groups.get(name)
        as_is = None if before is None else (before.selector, before.priority)
        if name == EVERYBODY and as_is is None and (group.selector, group.priority) == ("", 100):
            continue  # it is there, even where nobody has made it
        if as_is != (group.selector, group.priority):
            yield PutGroup(name, group.selector, group.priority, before)


def _overrides(declared: Declared, found: Found) -> Iterator[Change]:
    for name, group in declared.groups.items():
        before = found.groups.get(name)
        yield from _baselines(name, group, before)
        had = None if before is None else before.profile
        if group.profile is not None and group.profile != had:
            yield SetProfile(name, group.profile, had, _revision(before))


def _baselines(name: str, group: DeclaredGroup, before: Group | None) -> Iterator[Change]:
    for model, wanted in group.models.items():
        had = None if before is None else before.models.get(model)
        same_hash = had is not None and wanted.manifest_sha256 in {None, had.manifest_sha256}
        if had is None or had.version != wanted.version or not same_hash:
            was = None if had is None else had.version
            yield SetBaseline(name, model, wanted, was, _revision(before))


def _revision(group: Group | None) -> int:
    return 0 if group is None else group.revision


def _labels(declared: Declared, found: Found) -> Iterator[Change]:
    for name, wanted in declared.devices.items():
        device = found.devices.get(name)
        if device is None:
            raise Unknown(f"device {name}: is none of this fleet's; enrol it first")
        if dict(device.labels) != dict(wanted.labels):
            yield SetLabels(name, wanted.labels, device.labels, device.revision)


def _removed(declared: Declared, found: Found) -> Iterator[Change]:
    for name, group in sorted(found.groups.items()):
        if name not in declared.groups and name != EVERYBODY:
            yield RemoveGroup(group)


def _is_there(declared: DeclaredRollout, found: Found) -> bool:
    """It runs or has succeeded, or its group has the version anyhow."""
    same = _same(declared, found)
    if any(one.status in _LIVE or one.status is RolloutStatus.SUCCEEDED for one in same):
        return True
    group = found.groups.get(str(declared.members["group"]))
    if same or group is None or declared.members.get("selector"):
        return False
    if declared.model is not None:
        had = group.models.get(declared.model)
        return had is not None and had.version == declared.version
    profile = group.profile
    return profile is not None and (profile.name, profile.version) == (
        declared.profile,
        declared.version,
    )


def _rollout(declared: DeclaredRollout, found: Found) -> Change:
    name = declared.model or f"profile {declared.profile}"
    what = f"{name} {declared.version}"
    same = _same(declared, found)
    if stopped := next((one for one in same if one.status in _STOPPED), None):
        state = str(stopped.status).replace("_", " ")
        return Stays(
            f"rollout {stopped.id}: {subject_text(stopped.spec)} was {state}"
            f"{f' ({stopped.why})' if stopped.why else ''}; it is started again by another seed only"
        )
    draft = next((one for one in same if one.status is RolloutStatus.DRAFT), None)
    return StartRollout(what, declared.members, draft)


def _same(declared: DeclaredRollout, found: Found) -> list[RolloutView]:
    """Of the same subject, group, selector and seed: another seed is another rollout."""
    members = declared.members
    wanted = (members["group"], members.get("selector", ""), members["seed"])
    return [
        view
        for view in found.rollouts
        if (view.spec.group, view.spec.selector, view.spec.seed) == wanted
        and _subject(view) == (declared.model, declared.profile, declared.version)
    ]


def _subject(view: RolloutView) -> tuple[str | None, str | None, str | int]:
    subject = view.spec.subject
    if isinstance(subject, ModelSubject):
        return subject.model, None, subject.version
    return None, subject.name, subject.version


def _or_all(selector: str) -> str:
    return selector or "every device"


def _members(tree: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(tree.items())) or "no settings"
