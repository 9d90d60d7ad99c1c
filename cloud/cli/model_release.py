"""`hybridge model release|retire`: signed here, where the keys are, or by the registry's own key."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from cloud.cli.api_key import KeyFile
from cloud.cli.model_arguments import ModelName, VersionName, status_line, title
from cloud.cli.output import Format, Output, show
from cloud.cli.registry_session import Code, Comment, DryRun, Registry, ask
from cloud.cli.signing_keys import Days, PasswordFile, SignWith, signers_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloud.registry.client.client import RegistryClient
    from cloud.registry.documents import ModelVersion
    from shared.trust.tuf_api import CryptoSigner

Verb = Literal["release", "retire"]


def release(
    name: ModelName,
    version: VersionName,
    *,
    comment: Comment,
    sign_with: SignWith = None,
    password_file: PasswordFile = None,
    days: Days = 365.0,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make a candidate, or an earlier release, the one that devices take.

    With --sign-with its metadata is signed here, and the keys stay here; without, the registry
    signs, if it holds a release key.

    Exit codes: 0 done, 1 refused, or (with --dry-run) something is missing, 2 wrong usage, 3 the
    registry cannot be reached, 4 it is no candidate, or somebody released another meanwhile.
    """
    signers = signers_from(sign_with, password_file)
    if dry_run:
        _would_release(registry, key_file, name, version, output, is_signed=bool(signers))
        return
    _launch("release", name, version, comment, signers, days, registry, key_file, output)


def retire(
    name: ModelName,
    version: VersionName,
    *,
    comment: Comment,
    sign_with: SignWith = None,
    password_file: PasswordFile = None,
    days: Days = 365.0,
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
    signers = signers_from(sign_with, password_file)
    if dry_run:
        _would_retire(registry, key_file, name, version, output)
        return
    _launch("retire", name, version, comment, signers, days, registry, key_file, output)


def _launch(
    verb: Verb, name: str, version: str, comment: str, signers: "Sequence[CryptoSigner]",
    days: float, registry: list[str] | None, key_file: Path | None, output: Format,
) -> None:  # fmt: skip
    async def work(asked: "RegistryClient") -> "ModelVersion":
        from datetime import UTC, datetime

        from cloud.registry.client.signing import signed_release, signed_retirement

        seen = await asked.version(name, version)
        metadata = None
        if signers:
            signed = signed_release if verb == "release" else signed_retirement
            metadata = await signed(asked, seen, signers, datetime.now(UTC), days)
        return await asked.launch(verb, name, version, comment, metadata, seen.revision)

    found = ask(registry, key_file, work, model=name, version=version)
    show(found, output, lambda out: out.print(status_line(found), soft_wrap=True))


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
