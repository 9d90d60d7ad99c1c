"""`hybridge model release|retire`: signed here, where the keys are, or by the registry's own key."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cloud.cli.api_key import KeyFile
from cloud.cli.model_arguments import ModelName, VersionName, status_line, title
from cloud.cli.output import Format, Output, show
from cloud.cli.registry_session import Code, Comment, DryRun, Registry, ask, ending
from cloud.cli.signing_keys import (
    Days,
    PasswordFile,
    Save,
    SignWith,
    load,
    signers_from,
    tree_of,
)
from cloud.cli.signing_keys import save as save_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloud.registry.client.client import RegistryClient
    from cloud.registry.documents import ModelVersion
    from shared.trust.tuf_api import CryptoSigner

Verb = Literal["release", "retire"]
Metadata = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Signed by enough already; sent as it is.")
]


def release(
    name: ModelName,
    version: VersionName,
    *,
    comment: Comment,
    sign_with: SignWith = None,
    password_file: PasswordFile = None,
    days: Days = 365.0,
    save: Save = None,
    metadata: Metadata = None,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make a candidate, or an earlier release, the one that devices take.

    With --sign-with its metadata is signed here, and the keys stay here; without, the registry
    signs, if it holds a release key. Where several must sign: --save FOLDER, then `hybridge registry
    keys sign` by each, then --metadata FILE.

    Exit codes: 0 done, 1 refused, or (with --dry-run) something is missing, 2 wrong usage, 3 the
    registry cannot be reached, 4 it is no candidate, or somebody released another meanwhile.
    """
    with ending():
        signers = signers_from(sign_with, password_file)
    if dry_run:
        _would_release(registry, key_file, name, version, output, is_signed=bool(signers))
        return
    signing = _Signing(signers, days, save, metadata)
    _launch("release", name, version, comment, signing, registry, key_file, output)


def retire(
    name: ModelName,
    version: VersionName,
    *,
    comment: Comment,
    sign_with: SignWith = None,
    password_file: PasswordFile = None,
    days: Days = 365.0,
    save: Save = None,
    metadata: Metadata = None,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Take a release back: devices fall back to the newest one left.

    Signed as `release` is.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached, 4 it is not
    released, or somebody changed it meanwhile.
    """
    with ending():
        signers = signers_from(sign_with, password_file)
    if dry_run:
        _would_retire(registry, key_file, name, version, output)
        return
    signing = _Signing(signers, days, save, metadata)
    _launch("retire", name, version, comment, signing, registry, key_file, output)


@dataclass(frozen=True, slots=True)
class _Signing:
    """How the metadata is signed."""

    signers: "Sequence[CryptoSigner]"
    days: float
    folder: Path | None
    file: Path | None


def _launch(
    verb: Verb, name: str, version: str, comment: str, signing: _Signing,
    registry: list[str] | None, key_file: Path | None, output: Format,
) -> None:  # fmt: skip
    if signing.file and (signing.signers or signing.folder):
        raise typer.BadParameter("--metadata is sent as it is: no --sign-with or --save with it")

    async def work(asked: "RegistryClient") -> "ModelVersion | Path":
        seen = await asked.version(name, version)
        metadata = await _metadata(asked, verb, seen, signing)
        if isinstance(metadata, Path):
            return metadata
        tree = None if metadata is None else tree_of(metadata)
        return await asked.launch(verb, name, version, comment, tree, seen.revision)

    found = ask(registry, key_file, work, model=name, version=version)
    if isinstance(found, Path):
        saved = {"saved": str(found)}
        line = f"{found}: to be signed by others, then `hybridge model {verb} --metadata`"
        show(saved, output, lambda out: out.print(line, soft_wrap=True))
        return
    show(found, output, lambda out: out.print(status_line(found), soft_wrap=True))


async def _metadata(
    asked: "RegistryClient", verb: Verb, version: "ModelVersion", signing: _Signing
) -> bytes | Path | None:
    from datetime import UTC, datetime

    from cloud.registry.client.signing import next_release, next_retirement
    from cloud.registry.trust.edits import sign
    from shared.errors import Malformed
    from shared.trust.names import model_role

    role = model_role(version.model)
    if signing.file is not None:
        role_there, content = load(signing.file)
        if role_there != role:
            raise Malformed(f"{signing.file}: is of {role_there}, not of {role}")
        return content
    if not signing.signers and signing.folder is None:
        return None
    make = next_release if verb == "release" else next_retirement
    content = await make(asked, version, datetime.now(UTC), signing.days)
    content = sign(content, role, signing.signers)
    return content if signing.folder is None else save_metadata(signing.folder, role, content)


def _would_release(
    registry: list[str] | None, key_file: Path | None, name: str, version: str, output: Format,
    *, is_signed: bool,
) -> None:  # fmt: skip
    async def work(asked: "RegistryClient") -> "tuple[str | None, list[str]]":
        from cloud.registry.catalog.states import Event, after

        found = await asked.version(name, version)
        after(found.state, Event.RELEASED, title(found))
        current = (await asked.model(name)).current
        return current, await asked.checklist(name, version)

    current, missing = ask(registry, key_file, work, model=name, version=version)
    tree = {
        "dry_run": True, "model": name, "version": version, "would": "release",
        "current": current, "signed_here": is_signed, "missing": missing,
    }  # fmt: skip
    lines = [f"would release {name} {version} in place of {current or 'none'}"]
    if missing:
        lines = [f"{name} {version} may not be released yet:", *(f"  - {one}" for one in missing)]
    show(tree, output, lambda out: out.print("\n".join(lines), soft_wrap=True))
    if missing:
        raise typer.Exit(Code.REFUSED)


def _would_retire(
    registry: list[str] | None, key_file: Path | None, name: str, version: str, output: Format
) -> None:
    async def work(asked: "RegistryClient") -> "tuple[str | None, str | None]":
        from cloud.registry.catalog.states import Event, after

        found = await asked.version(name, version)
        after(found.state, Event.RETIRED, title(found))
        current = (await asked.model(name)).current
        others = [
            one
            for one in await asked.versions(name)
            if one.state == "released" and one.version != version
        ]
        newest = max(others, key=lambda one: max(launch.number for launch in one.launches),
                     default=None)  # fmt: skip
        left = newest.version if newest else None
        return current, left if current == version else current

    current, after = ask(registry, key_file, work, model=name, version=version)
    tree = {
        "dry_run": True, "model": name, "version": version, "would": "retire",
        "current": current, "current_after": after,
    }  # fmt: skip
    line = f"would retire {name} {version}; devices would run {after or 'what they have'}"
    show(tree, output, lambda out: out.print(line, soft_wrap=True))
