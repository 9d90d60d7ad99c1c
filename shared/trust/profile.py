"""What of TUF we read: everything else is refused before python-tuf sees it, signed or not.

One signature scheme, one hash, bounded counts, plain JSON. Unknown members are ignored, as the
specification asks (section 4.1); they are still signed, and still bounded in depth and size.
"""

from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from shared.config import in_words
from shared.errors import Malformed, TooLarge
from shared.trust import plain_json
from shared.trust.names import RELEASES_MAX, VERSION_MAX, bytes_max

Counter = Annotated[int, Field(gt=0, le=VERSION_MAX)]
Length = Annotated[int, Field(ge=0, le=2**40)]
Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
KeyId = Hex
Seconds = Annotated[int, Field(ge=0, le=2**40)]
Moment = Annotated[
    str,
    StringConstraints(
        pattern=r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z$"
    ),
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _KeyValue(_Part):
    public: Hex


class _Key(_Part):
    keytype: Literal["ed25519"]
    scheme: Literal["ed25519"]
    keyval: _KeyValue


Keys = Annotated[dict[KeyId, _Key], Field(max_length=64)]


class _Role(_Part):
    keyids: Annotated[list[KeyId], Field(min_length=1, max_length=32)]
    threshold: Annotated[int, Field(gt=0, le=32)]

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if len(set(self.keyids)) != len(self.keyids):
            raise ValueError("keyids repeat: a key counts once")
        if self.threshold > len(self.keyids):
            raise ValueError(
                f"threshold {self.threshold} of {len(self.keyids)} keys: nobody could sign for it"
            )
        return self


class _Hashes(_Part):
    sha256: Hex

    model_config = ConfigDict(extra="forbid")


class _MetaFile(_Part):
    version: Counter
    length: Length | None = None
    hashes: _Hashes | None = None


class _Signed(_Part):
    spec_version: Annotated[str, StringConstraints(pattern=r"^1\.[0-9]{1,3}(\.[0-9]{1,3})?$")]
    version: Counter
    expires: Moment


class _RootRoles(_Part):
    root: _Role
    timestamp: _Role
    snapshot: _Role
    targets: _Role

    model_config = ConfigDict(extra="forbid")


class _Root(_Signed):
    kind: Literal["root"] = Field(alias="_type")
    consistent_snapshot: Literal[True]
    keys: Keys
    roles: _RootRoles
    epoch: Counter = Field(alias="x-hybridge-epoch")

    @model_validator(mode="after")
    def _keys_are_there(self) -> Self:
        roles = self.roles
        _check_keys(self.keys, [roles.root, roles.timestamp, roles.snapshot, roles.targets])
        return self


class _TimestampMeta(_Part):
    snapshot: _MetaFile = Field(alias="snapshot.json")


class _Timestamp(_Signed):
    kind: Literal["timestamp"] = Field(alias="_type")
    meta: _TimestampMeta
    issued: Seconds = Field(alias="x-hybridge-issued")


class _Snapshot(_Signed):
    kind: Literal["snapshot"] = Field(alias="_type")
    meta: Annotated[
        dict[Annotated[str, StringConstraints(max_length=100)], _MetaFile], Field(max_length=20_000)
    ]


class _Delegation(_Role):
    name: Annotated[str, StringConstraints(pattern=r"^model-[a-z0-9][a-z0-9-]{0,63}$")]
    terminating: Literal[True]
    paths: Annotated[list[str], Field(min_length=1, max_length=1)]

    @model_validator(mode="after")
    def _own_path(self) -> Self:
        own = f"{self.name.removeprefix('model-')}/*/*"
        if self.paths != [own]:
            raise ValueError(f"{self.name} is given other paths than its own {own!r}")
        return self


class _Delegations(_Part):
    keys: Annotated[dict[KeyId, _Key], Field(max_length=20_000)]
    roles: Annotated[list[_Delegation], Field(max_length=20_000)]

    @model_validator(mode="after")
    def _keys_are_there(self) -> Self:
        names = [role.name for role in self.roles]
        if len(set(names)) != len(names):
            raise ValueError("a model is delegated twice")
        _check_keys(self.keys, self.roles)
        return self


class _Number(_Part):
    number: Counter


class _Custom(_Part):
    hybridge: _Number


class _Target(_Part):
    length: Length
    hashes: _Hashes
    custom: _Custom


class _Targets(_Signed):
    """Of the top-level role: delegations and no targets of its own."""

    kind: Literal["targets"] = Field(alias="_type")
    targets: Annotated[dict[str, _Target], Field(max_length=0)]
    delegations: _Delegations | None = None


class _Model(_Signed):
    """Of a model's role: targets and no delegations; a release key cannot appoint another."""

    kind: Literal["targets"] = Field(alias="_type")
    targets: Annotated[
        dict[Annotated[str, StringConstraints(max_length=200)], _Target],
        Field(max_length=RELEASES_MAX),
    ]
    delegations: None = None


class _Signature(_Part):
    keyid: KeyId
    sig: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]


class _Metadata(_Part):
    signatures: Annotated[list[_Signature], Field(max_length=64)]

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({signature.keyid for signature in self.signatures}) != len(self.signatures):
            raise ValueError("signatures: a key signs once")
        return self


class _RootFile(_Metadata):
    signed: _Root


class _TimestampFile(_Metadata):
    signed: _Timestamp


class _SnapshotFile(_Metadata):
    signed: _Snapshot


class _TargetsFile(_Metadata):
    signed: _Targets


class _ModelFile(_Metadata):
    signed: _Model


_FILES: dict[str, type[_Metadata]] = {
    "root": _RootFile,
    "timestamp": _TimestampFile,
    "snapshot": _SnapshotFile,
    "targets": _TargetsFile,
}


def check(content: bytes, role: str, where: str) -> None:
    """That these bytes are metadata of `role` as we read it; says nothing of who signed them.

    Raises `TooLarge` over the role's bound, `Malformed` for everything else. Bounded work: one
    pass to parse, one to measure, one to check.
    """
    limit = bytes_max(role)
    if len(content) > limit:
        raise TooLarge(f"{where}: {len(content)} bytes; metadata of {role} has at most {limit}")
    tree = plain_json.parse(content, where)
    try:
        _FILES.get(role, _ModelFile).model_validate(tree)
    except ValidationError as error:
        raise Malformed(f"{where}: {in_words(error)[:600]}") from error


def _check_keys(keys: dict[KeyId, _Key], roles: list[_Role] | list[_Delegation]) -> None:
    public = [key.keyval.public for key in keys.values()]
    if len(set(public)) != len(public):
        raise ValueError("keys: one key under two ids would count twice")
    for role in roles:
        if missing := [keyid for keyid in role.keyids if keyid not in keys]:
            raise ValueError(f"keys: there is no {missing[0][:12]}..., which a role names")
