"""Whether handed-in metadata may be published: the specification's checks before anything is stored.

Pure. Everything is held against what would be published afterwards: a root under which the targets
no longer verify, or targets that leave a model's role without valid signatures, wait until the
other half is there, so that no device ever meets a repository that does not check out.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from cloud.registry.trust.edits import read
from cloud.registry.trust.new_root import check_new_root
from shared.errors import Conflict, Malformed, NotTrusted, Unknown
from shared.trust.names import file_name, model_of
from shared.trust.tuf_api import AnyMetadata, Metadata, Root, Targets, VerificationResult

_VALID_MIN = timedelta(hours=1)
_VALID_MAX = timedelta(days=3_661)  # ten years: expiry is what ends a key that nobody took back


@dataclass(frozen=True, slots=True)
class Published:
    """What devices find now. Empty before the first root."""

    root: Metadata[Root] | None = None
    targets: Metadata[Targets] | None = None
    models: Mapping[str, Metadata[Targets]] = field(default_factory=dict)  # by role
    """Of those that have been read; `listed` has the names of all."""
    listed: frozenset[str] = frozenset()

    def of(self, role: str) -> AnyMetadata | None:
        match role:
            case "root":
                return self.root
            case "targets":
                return self.targets
            case _:
                return self.models.get(role)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A file that is not published yet, and why."""

    role: str
    version: int
    signed: tuple[str, ...]  # ids of keys
    missing: int  # signatures
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    ready: tuple[str, ...]  # roles, to be published together
    waiting: tuple[Waiting, ...]


def admit(
    content: bytes, role: str, published: Published, staged: Mapping[str, bytes], now: datetime
) -> bytes:
    """One handed-in file, with the signatures that its staged predecessor has: worth keeping?

    Raises `Malformed`, `TooLarge`, `NotTrusted` (nobody who may has signed it, or somebody who may
    not; expired; an epoch that falls) or `Conflict` (not the next version, or another content is
    staged under this version).
    """
    if role in {"snapshot", "timestamp"}:
        raise Malformed(
            f"{role}: the registry signs it itself; hand in root, targets or model roles"
        )
    metadata = read(content, role, f"new {role}")
    where = file_name(role, metadata.signed.version)
    _check_version(metadata, role, published, where)
    if metadata.signed.expires < now.astimezone(UTC) + _VALID_MIN:
        raise NotTrusted(
            f"{where}: expires on {metadata.signed.expires:%Y-%m-%d %H:%M} UTC, by this registry's "
            "clock too soon; sign it with a later date"
        )
    if metadata.signed.expires > now.astimezone(UTC) + _VALID_MAX:
        raise NotTrusted(
            f"{where}: expires on {metadata.signed.expires:%Y-%m-%d}; a key that is lost would be "
            f"believed until then: sign it for {_VALID_MAX.days} days at most"
        )
    if role == "root":
        old = None if published.root is None else published.root.signed
        check_new_root(metadata.signed, old, where)
    if role in staged:
        before = read(staged[role], role, where)
        if before.signed_bytes == metadata.signed_bytes:
            metadata.signatures = before.signatures | metadata.signatures
        elif before.signed.version == metadata.signed.version:
            raise Conflict(
                f"{where}: another content is staged under this version; sign that one, or discard it"
            )
    results = list(_results(metadata, role, _possible_delegators(role, published, staged)))
    if not results and model_of(role) is not None:
        raise not_appointed(role)
    allowed = {keyid for result in results for keyid in result.signed}
    if extra := sorted(set(metadata.signatures) - allowed):
        raise NotTrusted(
            f"{where}: the signature of key {extra[0][:12]}... does not verify, or the key may not "
            f"sign for {role}; sign these bytes with a key that may"
        )
    if not allowed:
        raise NotTrusted(f"{where}: has no signature; sign it before it is handed in")
    return metadata.to_bytes()


def judge(
    published: Published, staged: Mapping[str, bytes], online: Collection[str], now: datetime
) -> Verdict:
    """Which of the staged files can be published now, together. `online`: ids of the keys that
    this registry holds.
    """
    found = {role: read(content, role, role) for role, content in staged.items()}
    expired = {
        role: f"expired on {metadata.signed.expires:%Y-%m-%d}; discard it and sign a newer one"
        for role, metadata in found.items()
        if metadata.signed.is_expired(now.astimezone(UTC))
    }
    why: dict[str, str] = dict(expired)
    ready = set(found) - set(expired)
    while ready:
        after = _overlaid(published, {role: found[role] for role in ready})
        problems = dict(_problems(published, after, ready, online))
        if not problems:
            break
        why.update(problems)
        ready -= set(problems)
    order = sorted(ready, key=lambda role: (role in {"root", "targets"}, role == "root", role))
    waiting = [
        _waiting(role, found[role], published, staged, why[role])
        for role in sorted(set(found) - ready)
    ]
    return Verdict(tuple(order), tuple(waiting))


def not_appointed(role: str) -> Unknown:
    """A model's role that the targets do not know."""
    model = model_of(role)
    return Unknown(
        f"no key may name releases of {model} yet; have it delegated with the targets key: hybridge "
        f"registry keys delegate {model} --to release.pub --sign-with targets.pem"
    )


def _check_version(
    metadata: AnyMetadata,
    role: str,
    published: Published,
    where: str,
) -> None:
    before = published.of(role)
    last = 0 if before is None else before.signed.version
    if metadata.signed.version != last + 1:
        raise Conflict(
            f"{where}: the published version is {last}, so the next is {last + 1}; edit that one"
        )


def _overlaid(published: Published, new: Mapping[str, AnyMetadata]) -> Published:
    models = {role: metadata for role, metadata in new.items() if model_of(role) is not None}
    return replace(
        published,
        root=new.get("root", published.root),
        targets=new.get("targets", published.targets),
        models={**published.models, **models},
        listed=published.listed | set(models),
    )


def _problems(
    before: Published, after: Published, new: Collection[str], online: Collection[str]
) -> Iterator[tuple[str, str]]:
    """By the role that should wait: what would not check out after publishing `new`."""
    root, targets = after.root, after.targets
    if root is None or targets is None:
        other = "root" if root is None else "targets"
        for role in new:
            yield role, f"there is no {other} yet; hand in the first one"
        return
    if "root" in new:
        yield from _root_problems(before, root, online)
    if not _delegated(root.signed, "targets", targets):
        if "root" in new:
            yield "root", "the targets are not signed by enough of the keys that it names"
        if "targets" in new:
            yield "targets", _short(root.signed, "targets", targets)
    for role in sorted(after.listed):
        model = after.models.get(role)
        if "targets" not in new and role not in new:
            continue
        if not _appointed(targets.signed, role):
            if role in new:
                yield role, str(not_appointed(role))
            continue
        if model is None:
            yield "targets", f"{role} was not read"
        elif not _delegated(targets.signed, role, model):
            if role in new:
                yield role, _short(targets.signed, role, model)
            if "targets" in new:
                yield "targets", f"{role} is not signed by enough of the keys that it appoints"


def _root_problems(
    before: Published, root: Metadata[Root], online: Collection[str]
) -> Iterator[tuple[str, str]]:
    previous = None if before.root is None else before.root.signed
    result = root.signed.get_root_verification_result(previous, root.signed_bytes, root.signatures)
    if not result.verified:
        need = max(result.first.missing, result.second.missing)
        yield (
            "root",
            (
                f"needs {need} more signatures: {result.first.threshold} of the keys of the root before, "
                f"{result.second.threshold} of its own"
            ),
        )
    for name in ("snapshot", "timestamp"):
        role = root.signed.roles[name]
        if len(set(role.keyids) & set(online)) < role.threshold:
            yield (
                "root",
                f"this registry holds too few of its {name} keys; put their files into online_keys",
            )


def _delegated(delegator: Root | Targets, role: str, metadata: AnyMetadata) -> bool:
    return _result(delegator, role, metadata).verified


def _short(delegator: Root | Targets, role: str, metadata: AnyMetadata) -> str:
    return f"needs {_result(delegator, role, metadata).missing} more signatures"


def _result(delegator: Root | Targets, role: str, metadata: AnyMetadata) -> VerificationResult:
    return delegator.get_verification_result(role, metadata.signed_bytes, metadata.signatures)


def _appointed(targets: Targets, role: str) -> bool:
    delegations = targets.delegations
    return delegations is not None and role in (delegations.roles or {})


def _possible_delegators(
    role: str, published: Published, staged: Mapping[str, bytes]
) -> list[Root | Targets]:
    """Whose word counts for the role, now or once what is staged is published."""
    parent = "targets" if model_of(role) is not None else "root"
    found: list[Root | Targets] = []
    if (before := published.of(parent)) is not None:
        found.append(before.signed)
    if parent in staged:
        found.append(read(staged[parent], parent, parent).signed)
    return found


def _results(
    metadata: AnyMetadata,
    role: str,
    delegators: Sequence[Root | Targets],
) -> Iterator[VerificationResult]:
    for delegator in [*delegators, *([metadata.signed] if role == "root" else [])]:
        if isinstance(delegator, Targets) and not _appointed(delegator, role):
            continue
        yield _result(delegator, role, metadata)


def _waiting(
    role: str,
    metadata: AnyMetadata,
    published: Published,
    staged: Mapping[str, bytes],
    why: str,
) -> Waiting:
    results = list(_results(metadata, role, _possible_delegators(role, published, staged)))
    return Waiting(
        role=role,
        version=metadata.signed.version,
        signed=tuple(sorted({keyid for result in results for keyid in result.signed})),
        missing=max((result.missing for result in results), default=0),
        why=why,
    )
