"""`fleet.yaml`, read: groups, profiles, labels of devices and rollouts as an operator declares them.

Pure. A mistake is refused with the line that it stands in; so are unknown members and members that
stand twice. YAML's anchors are not read: a short file with them holds more than a machine can.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from cloud.cli.rollout_spec import model_subject, profile_subject, seed_of
from cloud.document import DeviceName, Document
from cloud.fleet.api.schemas import RolloutRequest
from cloud.fleet.documents import GroupName, Labels, ProfileRef, SelectorText
from cloud.fleet.selector_parser import parse, parse_for_group
from cloud.rollouts.criteria import parse_all
from shared.bundle.manifest import Name, Sha256, Version
from shared.errors import Malformed, TooLarge
from shared.fleet.profile import ProfileSettings

BYTES_MAX: Final = 4 * 1024 * 1024
_DEPTH_MAX: Final = 20
_NODES_MAX: Final = 500_000
_FINDINGS_SHOWN: Final = 10
Path = tuple[str | int, ...]
_Number = Annotated[int, Field(ge=1, le=10**6)]


class DeclaredBaseline(Document):
    version: Version
    manifest_sha256: Sha256 | None = None
    """None: the fleet's registry knows."""


class DeclaredGroup(Document):
    selector: SelectorText = ""
    priority: Annotated[int, Field(ge=0, le=1000)] = 100
    models: dict[Name, DeclaredBaseline] = Field(default_factory=dict)
    """Baselines; those that are not named stay as rollouts made them."""
    profile: ProfileRef | None = None
    """None: as it is."""


class DeclaredDevice(Document):
    labels: Labels
    """These and no others."""


class DeclaredRollout(Document):
    """Either `model` and `version`, or `profile` and `version`; the rest as `RolloutSpec`."""

    model: Name | None = None
    profile: Name | None = None
    version: str | int
    manifest_sha256: Sha256 | None = None
    settings: dict[str, object] = Field(default_factory=dict)
    """The rest, which `RolloutSpec` checks."""

    @model_validator(mode="before")
    @classmethod
    def _rest(cls, found: object) -> object:
        if not isinstance(found, dict):
            return found
        own = {name: value for name, value in found.items() if name in cls.model_fields}
        for name in ("settings", "subject"):
            if name in found:
                raise ValueError(f"{name}: no such member; write all beside model and version")
        return own | {"settings": {str(k): v for k, v in found.items() if k not in own}}

    @field_validator("version", mode="before")
    @classmethod
    def _as_written(cls, found: object) -> object:
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise ValueError(  # noqa: TRY004  pydantic reports no TypeError
                "write it in quotes, as '1.4.0': YAML takes it for something else"
            )
        return found

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if (self.model is None) == (self.profile is None):
            raise ValueError("names model or profile, one of them")
        if (self.model is None) != isinstance(self.version, int):
            raise ValueError("version: a model's is as '1.4.0', in quotes; a profile's is a number")
        return self

    @property
    def members(self) -> dict[str, object]:
        """Of a `RolloutRequest`."""
        if isinstance(self.version, int):
            subject = profile_subject(str(self.profile), self.version)
        else:
            subject = model_subject(str(self.model), self.version, self.manifest_sha256)
        return {"group": "all", "seed": seed_of(subject)} | self.settings | {"subject": subject}


class Declared(Document):
    """A whole file. What it does not name stays as it is."""

    groups: Annotated[dict[GroupName, DeclaredGroup], Field(max_length=1000)] = Field(
        default_factory=dict
    )
    profiles: Annotated[dict[Name, dict[_Number, ProfileSettings]], Field(max_length=1000)] = Field(
        default_factory=dict
    )
    """Settings by name and version."""
    devices: Annotated[dict[DeviceName, DeclaredDevice], Field(max_length=100_000)] = Field(
        default_factory=dict
    )
    rollouts: Annotated[tuple[DeclaredRollout, ...], Field(max_length=1000)] = ()


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where each member stands."""

    file: str
    of: Mapping[tuple[str, ...], int]

    def place(self, path: Path) -> str:
        """The line of the longest part of `path` that the file has."""
        for end in range(len(path), 0, -1):
            if (line := self.of.get(tuple(map(str, path[:end])))) is not None:
                return f"{self.file}, line {line}: {'.'.join(map(str, path))}"
        return f"{self.file}: {'.'.join(map(str, path)) or 'file'}"


def read(content: bytes, file: str) -> Declared:
    """Raises `TooLarge` or `Malformed`; `file` is its name in them."""
    if len(content) > BYTES_MAX:
        raise TooLarge(f"{file}: {len(content)} bytes; at most {BYTES_MAX} are read")
    try:
        text = content.decode("utf-8")
        node = yaml.compose(text, Loader=_Plain)
        lines = _Lines(file, {} if node is None else dict(_walk(node, file)))
        tree = {} if node is None else _Plain("").construct_document(node)
    except UnicodeDecodeError as error:
        raise Malformed(f"{file}: is not UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = file if mark is None else f"{file}, line {mark.line + 1}"
        raise Malformed(f"{where}: is not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        raise Malformed(f"{file}: is not YAML: {' '.join(str(error).split())[:200]}") from error
    try:
        found = Declared.model_validate(tree)
    except ValidationError as error:
        raise Malformed(_in_words(error, lines)) from error
    _check(found, lines)
    return found


class _Plain(yaml.SafeLoader):
    """Dates stay the text that they were written as: a version may look like one."""


_Plain.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _walk(root: yaml.Node, file: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every member's path and line, from 1. Raises `Malformed`: twice, shared, too deep or too many."""
    seen: set[int] = set()
    waiting: list[tuple[tuple[str, ...], yaml.Node]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        line = node.start_mark.line + 1
        if len(path) > _DEPTH_MAX or len(seen) > _NODES_MAX:
            raise Malformed(f"{file}, line {line}: is nested too deeply, or holds too much")
        if id(node) in seen:
            raise Malformed(f"{file}, line {line}: YAML anchors are not read; write it out")
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag.endswith(":merge"):
                    raise Malformed(
                        f"{file}, line {key.start_mark.line + 1}: this is no member's name"
                    )
                if key.value in names:
                    raise Malformed(
                        f"{file}, line {key.start_mark.line + 1}: {key.value!r} stands twice"
                    )
                names.add(key.value)
                inner = (*path, key.value)
                yield inner, key.start_mark.line + 1
                waiting.append((inner, value))
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                inner = (*path, str(number))
                yield inner, value.start_mark.line + 1
                waiting.append((inner, value))


def _check(found: Declared, lines: _Lines) -> None:
    """What needs a parser of its own: selectors and criteria. Raises `Malformed`, with the line."""
    for name, group in found.groups.items():
        with _at(lines, "groups", name, "selector"):
            parse_for_group(group.selector)
    for number, rollout in enumerate(found.rollouts):
        try:
            spec = RolloutRequest.model_validate(rollout.members)
        except ValidationError as error:
            raise Malformed(_in_words(error, lines, ("rollouts", number))) from error
        with _at(lines, "rollouts", number, "selector"):
            parse(spec.selector)
        with _at(lines, "rollouts", number, "criteria"):
            parse_all(spec.criteria)


@contextmanager
def _at(lines: _Lines, *path: str | int) -> Iterator[None]:
    try:
        yield
    except Malformed as error:
        raise Malformed(f"{lines.place(path)}: {error}") from error


def _in_words(error: ValidationError, lines: _Lines, under: Path = ()) -> str:
    found = error.errors(include_input=False, include_url=False, include_context=False)
    said = [_finding(one, lines, under) for one in found[:_FINDINGS_SHOWN]]
    more = len(found) - len(said)
    return "; ".join(said) + (f"; and {more} more" if more else "")


def _finding(found: Mapping[str, object], lines: _Lines, under: Path) -> str:
    loc = found["loc"]
    assert isinstance(loc, tuple)
    written = loc[-1:] if loc[:1] == ("subject",) else loc  # it stands beside the others
    path: Path = (*under, *(part for part in written if part != "[key]"))
    words = str(found["msg"]).removeprefix("Value error, ")
    match found["type"]:
        case "extra_forbidden":
            words = "no such member; check its spelling or remove it"
        case "missing":
            words = "is missing; set it"
    return f"{lines.place(path)}: {words}"
