"""The way from a pinned root to a model's releases, without I/O: it asks, and is given.

`walk` yields `Want` (answered by the bytes, or None where there are none) and `Keep` (to be on
disk before the next step). TUF specification 1.0.31, section 5.3, plus the rules for clocks:

- Time is the later of the own clock and the signing time of the newest timestamp believed. A
  clock that runs behind by up to `CLOCK_TOLERANCE` thus changes nothing.
- Further behind, it is taken for no clock: such a device could be held at an old release for ever
  (freeze), so it refuses new ones, and keeps nothing of what it was shown.
- A clock ahead sees metadata expire early; the registry leaves two days on every timestamp.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.errors import NotTrusted, Refused, Unavailable, Unknown
from shared.trust.chain import Chain, epoch_of, missing
from shared.trust.last_chain import chain_name, pack, unpack
from shared.trust.names import (
    ROOT_BYTES_MAX,
    ROOTS_MAX,
    TIMESTAMP_BYTES_MAX,
    bytes_max,
    file_name,
    model_role,
    parse_target,
)
from shared.trust.releases import ReleaseTarget, Trusted
from shared.trust.tuf_api import MetaFile, Signed, Targets

CLOCK_TOLERANCE = timedelta(hours=25)
"""A day, for who sets a date by hand or in the wrong zone, and an hour for the way."""


@dataclass(frozen=True, slots=True)
class Want:
    """A file of the registry, of at most so many bytes."""

    name: str
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Keep:
    """A file that has been verified, under the name that it is kept by."""

    name: str
    content: bytes


Walk = Generator[Want | Keep, bytes | None, Trusted]


def walk(pinned_root: bytes, kept: Mapping[str, bytes], model: str, now: datetime) -> Walk:
    """To fresh releases. `kept`: by name, files from earlier `Keep`s, believed as far as they check.

    Raises `NotTrusted`, `Malformed`, `TooLarge` (refused: the registry or the clock is wrong),
    `Unknown` (no such model) or `Unavailable`.
    """
    now = _utc(now)
    chain = Chain(pinned_root)
    yield from _roots(chain, kept)
    yield from _timestamp(chain, kept, now)
    chain.judge_at(max(now, chain.issued))
    yield from _snapshot(chain, kept)
    yield from _delegate(chain, kept, "targets")
    _check_delegated(chain, model)
    yield from _delegate(chain, kept, model_role(model))
    trusted = _trusted(chain, model, None)
    yield Keep(chain_name(model), pack(chain.root.version, chain.files, model_role(model)))
    return trusted


def remembered(
    pinned_root: bytes, roots: Mapping[str, bytes], last: bytes, model: str, now: datetime
) -> Trusted:
    """What the last whole chain says (`last_chain.py`), expired or not: `stale` tells why none of
    it may be new.

    Raises `NotTrusted`, `Malformed` or `TooLarge` where it does not check out.
    """
    now = _utc(now)
    chain, files = Chain(pinned_root), unpack(last, chain_name(model))
    while chain.root.version < files.root_version:
        content = roots.get(name := file_name("root", chain.root.version + 1))
        if content is None:
            raise NotTrusted(f"{name}: is not kept any more; refresh it")
        chain.add_root(content)
    chain.add_timestamp(files.timestamp.encode())
    chain.add_snapshot(files.snapshot.encode(), kept=False)
    chain.add_targets(files.targets.encode())
    _check_delegated(chain, model)
    chain.add_model(model, files.role.encode())
    stale = _stale(chain, model, now)
    if stale is None and (name := file_name("root", chain.root.version + 1)) in roots:
        stale = f"{name}: is newer than what is kept of the rest; refresh it"
    return _trusted(chain, model, stale)


def _roots(chain: Chain, kept: Mapping[str, bytes]) -> Generator[Want | Keep, bytes | None, None]:
    for _ in range(ROOTS_MAX):
        name = file_name("root", chain.root.version + 1)
        if _take(chain.add_root, kept.get(name)):
            continue
        content = yield Want(name, ROOT_BYTES_MAX)
        if content is None:
            return
        chain.add_root(content)
        yield Keep(name, content)
    raise NotTrusted(
        f"{file_name('root', chain.root.version + 1)}: more than {ROOTS_MAX} roots after the pinned "
        "one; pin a newer root"
    )


def _timestamp(
    chain: Chain, kept: Mapping[str, bytes], now: datetime
) -> Generator[Want | Keep, bytes | None, None]:
    seen = _take(chain.add_timestamp, kept.get("timestamp.json"))
    if seen:
        _check_clock(chain, now)
    # a root that expired ends the walk here, as an expired timestamp does
    chain.judge_at(max(now, chain.issued) if seen else now)
    content = yield Want("timestamp.json", TIMESTAMP_BYTES_MAX)
    if content is None:
        raise Unavailable("timestamp.json: the registry has none; has it been set up? try later")
    if chain.add_timestamp(content):
        _check_clock(chain, now)
        yield Keep("timestamp.json", content)


def _check_clock(chain: Chain, now: datetime) -> None:
    if (why := _no_clock(chain, now)) is not None:
        raise NotTrusted(why)


def _no_clock(chain: Chain, now: datetime) -> str | None:
    if chain.issued <= now + CLOCK_TOLERANCE:
        return None
    return (
        f"timestamp.json: was signed on {chain.issued:%Y-%m-%d %H:%M} UTC, and this device's clock "
        f"says {now:%Y-%m-%d %H:%M}: what runs goes on running, no new release is taken until the "
        "clock is right (NTP); where it is, the registry's is wrong"
    )


def _snapshot(
    chain: Chain, kept: Mapping[str, bytes]
) -> Generator[Want | Keep, bytes | None, None]:
    if _take(lambda content: chain.add_snapshot(content, kept=True), kept.get("snapshot.json")):
        return
    name, content = yield from _fetch("snapshot", chain.timestamp.snapshot_meta)
    if content is None:
        raise missing(name)
    chain.add_snapshot(content, kept=False)
    yield Keep("snapshot.json", content)


def _delegate(
    chain: Chain, kept: Mapping[str, bytes], role: str
) -> Generator[Want | Keep, bytes | None, None]:
    model = role.removeprefix("model-")

    def add(content: bytes) -> None:
        if role == "targets":
            chain.add_targets(content)
        else:
            chain.add_model(model, content)

    if _take(add, kept.get(f"{role}.json")):
        return
    meta = chain.snapshot.meta.get(f"{role}.json")
    if meta is None:
        raise Unknown(
            f"{chain.snapshot.version}.snapshot.json: lists no {role}.json yet: nothing of it has been "
            "released"
        )
    name, content = yield from _fetch(role, meta)
    if content is None:
        raise missing(name)
    add(content)
    yield Keep(f"{role}.json", content)


def _fetch(
    role: str, meta: MetaFile
) -> Generator[Want | Keep, bytes | None, tuple[str, bytes | None]]:
    name, limit = file_name(role, meta.version), bytes_max(role)
    content = yield Want(name, min(limit, meta.length or limit))
    return name, content


def _take(add: Callable[[bytes], object], content: bytes | None) -> bool:
    """Whether a kept file is good as it is; one that is not is fetched anew."""
    if content is None:
        return False
    try:
        add(content)
    except Refused:
        return False
    return True


def _check_delegated(chain: Chain, model: str) -> None:
    delegations = chain.targets.delegations
    if delegations is None or not delegations.roles or model_role(model) not in delegations.roles:
        raise Unknown(
            f"{chain.targets.version}.targets.json: no model {model!r} is delegated; correct its "
            "name, or have it delegated"
        )


def _trusted(chain: Chain, model: str, stale: str | None) -> Trusted:
    role = chain.model(model)
    return Trusted(
        model=model,
        releases=releases_of(role, model),
        root_version=chain.root.version,
        epoch=epoch_of(chain.root),
        timestamp_version=chain.timestamp.version,
        role_version=role.version,
        expires=min(signed.expires for signed in _signed(chain, model).values()),
        stale=stale,
    )


def releases_of(role: Targets, model: str) -> tuple[ReleaseTarget, ...]:
    """What a model's role names, newest first. Raises `NotTrusted` for what it may not name."""
    releases = []
    for path, target in role.targets.items():
        named = parse_target(path)
        if named is None or named[0] != model:
            raise NotTrusted(
                f"{role.version}.model-{model}.json: names {path[:80]!r}; it may name "
                f"{model}/VERSION/manifest.json alone"
            )
        releases.append(
            ReleaseTarget(
                model=model,
                version=named[1],
                manifest_sha256=target.hashes["sha256"],
                manifest_bytes=target.length,
                number=int(target.unrecognized_fields["custom"]["hybridge"]["number"]),
            )
        )
    numbers = {release.number for release in releases}
    if len(numbers) != len(releases):
        raise NotTrusted(
            f"{role.version}.model-{model}.json: two releases have one number; which is newer?"
        )
    return tuple(sorted(releases, key=lambda release: -release.number))


def _signed(chain: Chain, model: str) -> dict[str, Signed]:
    return {
        "root": chain.root,
        "timestamp": chain.timestamp,
        "snapshot": chain.snapshot,
        "targets": chain.targets,
        model_role(model): chain.model(model),
    }


def _stale(chain: Chain, model: str, now: datetime) -> str | None:
    if (why := _no_clock(chain, now)) is not None:
        return why
    moment = max(now, chain.issued)
    for role, signed in _signed(chain, model).items():
        if signed.is_expired(moment):
            return (
                f"{file_name(role, signed.version)}: expired on {signed.expires:%Y-%m-%d %H:%M} "
                "UTC; what runs goes on running, no new release is taken until the registry is "
                "reached"
            )
    return None


def _utc(now: datetime) -> datetime:
    assert now.tzinfo is not None, "a time without a zone"
    return now.astimezone(UTC)
