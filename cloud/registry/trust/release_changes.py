"""What a model's new role may change: one release or one retirement, and nothing besides. Pure."""

from collections.abc import Collection, Mapping

from cloud.registry.documents import StoredFile
from cloud.registry.trust.acceptance import Published
from cloud.registry.trust.edits import read
from shared.errors import Conflict
from shared.trust.names import file_name, model_of, model_role
from shared.trust.releases import ReleaseTarget
from shared.trust.tuf_api import Metadata, Targets
from shared.trust.walk import releases_of


def check_releases(
    before: Metadata[Targets] | None,
    after: Metadata[Targets],
    model: str,
    *,
    releasing: tuple[str, StoredFile] | None = None,
    retiring: str | None = None,
    gone: Collection[str] = (),
) -> None:
    """That a model's new role changes what it is said to change, and nothing else. Versions that
    are `gone` (retired in the catalog: each release retires the oldest) are left out by the way:
    a release or a retirement must, or devices would fall back to one of them.

    Raises `Conflict`, in words.
    """
    old = {} if before is None else _by_version(before.signed, model)
    new = _by_version(after.signed, model)
    where = file_name(model_role(model), after.signed.version)
    expected = dict(old)
    if releasing is not None:
        version, manifest = releasing
        found = new.get(version)
        if found is None or (found.manifest_sha256, found.manifest_bytes) != (
            manifest.sha256,
            manifest.bytes,
        ):
            raise Conflict(
                f"{where}: does not name the manifest of {model} {version} that is registered here, "
                f"{manifest.sha256[:12]}..."
            )
        if found.number <= max((release.number for release in old.values()), default=0):
            raise Conflict(
                f"{where}: {version} has number {found.number}, which is not above every other's"
            )
        expected[version] = found
    if retiring is not None:
        expected.pop(retiring, None)
    if (releasing or retiring) and (left := sorted(set(gone) & set(new))):
        raise Conflict(
            f"{where}: still names {', '.join(left[:4])}, retired by an earlier release; make the "
            "metadata anew, without it"
        )
    expected = _less(expected, gone, new)
    if expected != new:
        changed = sorted(
            version for version in expected | new if expected.get(version) != new.get(version)
        )
        raise Conflict(
            f"{where}: also changes {', '.join(changed[:4])}; a version is released and retired by "
            "its own call, one at a time"
        )


def without_releases(
    staged: Mapping[str, bytes], published: Published, gone: Mapping[str, Collection[str]]
) -> dict[str, bytes]:
    """Less the models' roles that change what is released: those wait for their release. `gone`:
    by role, as in `check_releases`.
    """
    found: dict[str, bytes] = {}
    for role, content in staged.items():
        if (model := model_of(role)) is not None:
            before = published.models.get(role)
            after = _by_version(read(content, role, role).signed, model)
            old = {} if before is None else _by_version(before.signed, model)
            if after != _less(old, gone.get(role, ()), after):
                continue
        found[role] = content
    return found


def _less(
    old: Mapping[str, ReleaseTarget], gone: Collection[str], new: Collection[str]
) -> dict[str, ReleaseTarget]:
    return {version: one for version, one in old.items() if version in new or version not in gone}


def _by_version(role: Targets, model: str) -> dict[str, ReleaseTarget]:
    return {release.version: release for release in releases_of(role, model)}
