"""`hybridge registry keys`: who may sign what, and the files that people sign."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.api_key import KeyFile
from cloud.cli.output import Format, Output, grid, say, show
from cloud.cli.registry_key_changes import delegate, renew, rotate
from cloud.cli.registry_session import CODES, DryRun, Registry, ask, ending
from cloud.cli.signing_keys import PasswordFile, SignWith, load, save, signers_from, tree_of

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.registry.api.schemas import TrustAnswer, TrustState
    from cloud.registry.client.client import RegistryClient

keys = typer.Typer(
    no_args_is_help=True,
    help="Make, change and use the keys that sign releases. Private keys never leave this machine. "
    + CODES,
)
for _command in (delegate, rotate, renew):
    keys.command()(_command)
_ID = 12  # characters of a key's id that are shown


@keys.command(name="list")
def list_keys(
    *, registry: Registry = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """Show every role: its version, until when it is believed, whose keys may sign it, what waits.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached.
    """
    found = ask(registry, key_file, lambda asked: asked.trust())
    show(found, output, lambda out: _roles(out, found))


@keys.command()
def create(
    file: Annotated[Path, typer.Argument(metavar="KEY.pem", help="It must not be there yet.")],
    *,
    password_file: PasswordFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make an Ed25519 key: KEY.pem for its holder alone, KEY.pub for who is to appoint it.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 4 there is such a file already.
    """
    from cloud.registry.trust.keys import create_key, read_password
    from shared.errors import Conflict

    with ending():
        password = read_password(password_file, os.environ)
        public = file.with_suffix(".pub")
        if file.exists() or public.exists():
            raise Conflict(f"{file}: is there already; a key is never overwritten")
        key_id = None if dry_run else create_key(file, password).public_key.keyid
    tree = {
        "dry_run": dry_run, "key": key_id, "private": str(file), "public": str(public),
        "encrypted": password is not None,
    }  # fmt: skip
    line = f"would make {file}" if key_id is None else f"{file}: key {key_id}; {public} is public"
    show(tree, output, lambda out: out.print(line, soft_wrap=True))


@keys.command()
def sign(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="As 2.root.json: its name says whose it is.")
    ],
    *,
    sign_with: SignWith = None,
    password_file: PasswordFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Add signatures to a metadata file, in place. Needs no registry: offline keys stay offline.

    Exit codes: 0 done, 1 refused, 2 wrong usage.
    """
    from cloud.registry.trust import edits

    if not sign_with:
        raise typer.BadParameter("name a key: --sign-with KEY.pem")
    with ending():
        role, content = load(file)
        signers = signers_from(sign_with, password_file)
        signed = edits.sign(content, role, signers)
        if not dry_run:
            save(file.parent, role, signed)
        metadata = edits.read(signed, role, str(file))
    ids = sorted(metadata.signatures)
    tree = {
        "dry_run": dry_run, "file": str(file), "role": role, "version": metadata.signed.version,
        "expires": metadata.signed.expires.isoformat(), "signed": ids,
    }  # fmt: skip
    line = (
        f"{file}: {role} {metadata.signed.version}, believed until {metadata.signed.expires:%Y-%m-%d}, "
        f"{'would be ' if dry_run else ''}signed by {', '.join(one[:_ID] for one in ids)}"
    )
    show(tree, output, lambda out: out.print(line, soft_wrap=True))


@keys.command()
def publish(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="As 1.root.json 1.targets.json.")
    ],
    *,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Hand signed metadata in. It is published once enough have signed, and all that it needs is there.

    Exit codes: 0 done, whether published or waiting, 1 refused, 2 wrong usage, 3 the registry cannot
    be reached, 4 another version was published meanwhile.
    """
    with ending():
        loaded = [load(file) for file in files]

    async def work(asked: "RegistryClient") -> "list[TrustAnswer]":
        await asked.trust()  # also for --dry-run: the registry is there and takes the key
        return [
            await asked.publish_trust(role, tree_of(content))
            for role, content in loaded
            if not dry_run
        ]

    answers = ask(registry, key_file, work)
    if dry_run:
        roles = [role for role, _ in loaded]
        tree = {"dry_run": True, "would": "hand in", "roles": roles}
        show(tree, output, lambda out: out.print(f"would hand in {', '.join(roles)}"))
        return
    published = {role: number for one in answers for role, number in one.published.items()}
    waiting = [one for one in answers[-1].waiting if one.role not in published]
    tree = {"published": published, "waiting": [one.model_dump(mode="json") for one in waiting]}
    show(tree, output, lambda out: _published(out, published))
    for one in waiting:
        say(f"{one.role} {one.version} waits: {one.why}")


@keys.command()
def discard(
    role: Annotated[str, typer.Argument(help="root, targets or model-NAME.")],
    *,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Forget metadata that waits for signatures.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached.
    """

    async def work(asked: "RegistryClient") -> bool:
        waits = role in {one.role for one in (await asked.trust()).staged}
        if not dry_run:
            await asked.discard_trust(role)
        return waits

    waits = ask(registry, key_file, work)
    verb = "would be discarded" if dry_run else "discarded"
    line = f"{role}: {verb}" if waits else f"{role}: nothing waits"
    tree = {"dry_run": dry_run, "role": role, "waits": waits}
    show(tree, output, lambda out: out.print(line, soft_wrap=True))


def _published(out: "Console", published: "dict[str, int]") -> None:
    if published:
        words = ", ".join(f"{role} {number}" for role, number in sorted(published.items()))
        out.print(f"published: {words}", soft_wrap=True)
    else:
        out.print("handed in; nothing is published yet")


def _roles(out: "Console", found: "TrustState") -> None:
    signs = "signs" if found.is_online else "cannot sign"
    grid(
        out, f"Epoch {found.epoch}; the registry {signs} snapshots and timestamps",
        ("role", "version", "believed until", "must sign", "keys"),
        (
            (
                one.role, one.version, f"{one.expires:%Y-%m-%d %H:%MZ}",
                f"{one.threshold} of {len(one.keys)}", " ".join(key[:_ID] for key in one.keys),
            )
            for one in found.roles
        ),
    )  # fmt: skip
    if found.staged:
        grid(
            out, "Waiting", ("role", "version", "signed by", "why"),
            (
                (one.role, one.version, " ".join(key[:_ID] for key in one.signed), one.why)
                for one in found.staged
            ),
        )  # fmt: skip
