"""`hybridge registry keys delegate|rotate|renew`: new versions of what says who may sign what."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cloud.cli.api_key import KeyFile
from cloud.cli.completion import models
from cloud.cli.output import Format, Output, say, show
from cloud.cli.registry_session import DryRun, Registry, ask, ending
from cloud.cli.signing_keys import (
    PasswordFile,
    Save,
    SignWith,
    signers_from,
    tree_of,
)
from cloud.cli.signing_keys import save as save_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloud.registry.api.schemas import TrustAnswer
    from cloud.registry.client.client import RegistryClient
    from cloud.registry.trust.edits import Holders
    from shared.trust.tuf_api import CryptoSigner

To = Annotated[list[Path], typer.Option("--to", metavar="KEY.pub", help="May sign it; may repeat.")]
Threshold = Annotated[int, typer.Option(min=1, max=32, help="So many of them must sign.")]
Believed = Annotated[
    float | None,
    typer.Option("--days", min=1, max=3660, help="It is believed. Default: as the ceremony's."),
]


def delegate(
    model: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Its name.", autocompletion=models)
    ],
    *,
    to: To,
    threshold: Threshold = 1,
    sign_with: SignWith = None,
    password_file: PasswordFile = None,
    days: Believed = None,
    save: Save = None,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Say whose keys name a model's releases, in place of any before. Signed with the targets key.

    A model whose releases were signed by other keys waits for `keys renew model-NAME` with a new one.

    Exit codes: 0 done, whether published or waiting, 1 refused, 2 wrong usage, 3 the registry cannot
    be reached, 4 somebody published meanwhile.
    """
    with ending():
        holders = _holders(to, threshold)

    def edit(before: bytes, now: datetime) -> bytes:
        from cloud.registry.trust.ceremony import TARGETS_DAYS
        from cloud.registry.trust.edits import with_delegation

        return with_delegation(before, dict.fromkeys(model, holders), now, days or TARGETS_DAYS)

    _change("targets", edit, sign_with, password_file, save, registry, key_file, dry_run, output)


def rotate(
    role: Annotated[
        Literal["root", "targets", "snapshot", "timestamp"], typer.Argument(help="Whose keys.")
    ],
    *,
    to: To,
    threshold: Threshold = 1,
    sign_with: SignWith = None,
    password_file: PasswordFile = None,
    days: Believed = None,
    save: Save = None,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Appoint other keys for a top-level role, in place of all before. Signed with enough root keys.

    New root keys: enough of the old and of the new ones sign. New targets keys: it waits for `keys
    renew targets` with one. New online keys: put them into the registry's online_keys first.

    Exit codes: 0 done, whether published or waiting, 1 refused, 2 wrong usage, 3 the registry cannot
    be reached, 4 somebody published meanwhile.
    """
    with ending():
        holders = _holders(to, threshold)

    def edit(before: bytes, now: datetime) -> bytes:
        from cloud.registry.trust.ceremony import ROOT_DAYS
        from cloud.registry.trust.edits import next_root

        return next_root(before, now, days or ROOT_DAYS, holders={role: holders})

    _change("root", edit, sign_with, password_file, save, registry, key_file, dry_run, output)


def renew(
    role: Annotated[str, typer.Argument(help="root, targets or model-NAME.")],
    *,
    sign_with: SignWith = None,
    password_file: PasswordFile = None,
    days: Believed = None,
    save: Save = None,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Sign a role as it is once more: before it expires, or with its new keys.

    Exit codes: 0 done, whether published or waiting, 1 refused, 2 wrong usage, 3 the registry cannot
    be reached, 4 somebody published meanwhile.
    """

    def edit(before: bytes, now: datetime) -> bytes:
        from cloud.registry.trust.ceremony import ROOT_DAYS, TARGETS_DAYS
        from cloud.registry.trust.edits import next_root, renewed

        if role == "root":
            return next_root(before, now, days or ROOT_DAYS)
        return renewed(before, role, now, days or TARGETS_DAYS)

    _change(role, edit, sign_with, password_file, save, registry, key_file, dry_run, output)


def _holders(paths: list[Path], threshold: int) -> "Holders":
    from cloud.registry.trust.edits import Holders
    from cloud.registry.trust.keys import load_public

    if threshold > len(paths):
        raise typer.BadParameter(
            f"--threshold {threshold}: of {len(paths)} keys; give --to as often as keys may sign"
        )
    return Holders(tuple(load_public(path) for path in paths), threshold)


def _change(
    role: str, edit: "Callable[[bytes, datetime], bytes]", sign_with: list[Path] | None,
    password_file: Path | None, folder: Path | None, registry: list[str] | None,
    key_file: Path | None, dry_run: bool, output: Format,
) -> None:  # fmt: skip
    """Edit what is published, sign it, and hand it in or save it."""
    if not sign_with and folder is None and not dry_run:
        raise typer.BadParameter("give --sign-with KEY.pem, or --save FOLDER for others to sign")
    with ending():
        signers = signers_from(sign_with, password_file)

    async def work(asked: "RegistryClient") -> "tuple[bytes, TrustAnswer | None]":
        content = await _signed(asked, role, edit, signers)
        if folder is not None or dry_run:
            return content, None
        return content, await asked.publish_trust(role, tree_of(content))

    content, answer = ask(registry, key_file, work)
    if answer is None:
        _show_draft(role, content, None if dry_run else folder, output)
        return
    words = ", ".join(f"{name} {number}" for name, number in sorted(answer.published.items()))
    line = f"published: {words}" if words else "handed in; nothing is published yet"
    show(answer, output, lambda out: out.print(line, soft_wrap=True))
    for one in answer.waiting:
        say(f"{one.role} {one.version} waits: {one.why}")


async def _signed(
    asked: "RegistryClient", role: str, edit: "Callable[[bytes, datetime], bytes]",
    signers: "list[CryptoSigner]",
) -> bytes:  # fmt: skip
    from cloud.registry.client.signing import published
    from cloud.registry.trust.edits import sign
    from shared.errors import Unknown
    from shared.trust.names import parse_role

    before = await published(asked, parse_role(role))
    if before is None:
        raise Unknown(
            f"{role}: nothing is published yet; hand the first root and targets in with `hybridge "
            "registry keys publish`"
        )
    return sign(edit(before, datetime.now(UTC)), role, signers)


def _show_draft(role: str, content: bytes, folder: Path | None, output: Format) -> None:
    from cloud.registry.trust.edits import read

    with ending():
        path = None if folder is None else save_metadata(folder, role, content)
        metadata = read(content, role, role)
    tree = {
        "dry_run": folder is None, "role": role, "version": metadata.signed.version,
        "expires": metadata.signed.expires.isoformat(), "signed": sorted(metadata.signatures),
        "saved": None if path is None else str(path),
    }  # fmt: skip
    what = f"{role} {metadata.signed.version} with {len(metadata.signatures)} signature(s)"
    line = f"would hand in {what}" if path is None else f"{path}: {what}"
    show(tree, output, lambda out: out.print(line, soft_wrap=True))
