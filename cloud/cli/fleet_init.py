"""`hybridge fleet init|renew`: a region's CAs, certificates, settings and API keys."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from cloud.cli.output import Format, Output, grid, say, show
from cloud.cli.registry_session import DryRun, ending

ROLES: Final = ("viewer", "operator", "approver")
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The region's folder.")]
Hosts = Annotated[
    list[str],
    typer.Option(
        "--host", help="A name or address at which devices reach broker and API; may repeat."
    ),
]


def init(
    folder: Folder,
    *,
    host: Hosts,
    name: Annotated[str, typer.Option(help="The region's, for people.")] = "fleet",
    broker: Annotated[
        Literal["embedded", "mosquitto"], typer.Option(help="Whose settings are written.")
    ] = "embedded",
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make the CA of devices, certificates for broker, workers and fleet, ACL and settings, and an
    API key of each role.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 4 there is a region in DIR already.
    """
    with ending():
        from cloud.fleet.setup.init import create

        made: list[Path] = []
        if dry_run:
            _check(folder, name, host)
        else:
            made = [*create(folder, name, tuple(host), broker), *_make_keys(folder)]
    tree = {"dry_run": dry_run, "folder": str(folder), "files": [str(one) for one in made]}
    if dry_run:
        line = f"would make a region {name!r} in {folder} for {', '.join(host)}"
        show(tree, output, lambda out: out.print(line, soft_wrap=True))
        return
    rows = [(str(one),) for one in made]
    show(tree, output, lambda out: grid(out, "Made", ("file",), rows))
    say(f"WARNING: {folder}/devices-ca/ makes devices: whoever reads it can be any of them")
    say(f"keys/*.key are API keys: hand each to its owner, then delete it here: {folder}/keys")
    say(f"next: hybridge-cloud fleet --config {folder / 'fleet.toml'}")


def renew(
    folder: Folder,
    *,
    host: Hosts,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """New certificates for the region's own processes, of the CA that is there; then restart them.

    Devices renew theirs by themselves.

    Exit codes: 0 done, 1 refused, 2 wrong usage.
    """
    with ending():
        from cloud.fleet.setup.init import renew as renewed

        made = [] if dry_run else renewed(folder, tuple(host))
    tree = {"dry_run": dry_run, "files": [str(one) for one in made]}
    if dry_run:
        line = f"would make new certificates of server, worker and fleet in {folder / 'tls'}"
        show(tree, output, lambda out: out.print(line, soft_wrap=True))
        return
    show(tree, output, lambda out: grid(out, "Made", ("file",), [(str(one),) for one in made]))
    say("next: restart the broker, the workers and the fleet: they read these at their start")


def _check(folder: Path, name: str, hosts: list[str]) -> None:
    from cloud.fleet.setup.layout import Layout, check_hosts, check_region
    from shared.errors import Conflict

    check_region(name)
    check_hosts(tuple(hosts))
    at = Layout(folder)
    for path in (at.devices_ca, at.services_ca, at.fleet_config, at.acl):
        if path.exists():
            raise Conflict(f"{path} exists already; name an empty folder")


def _make_keys(folder: Path) -> Iterator[Path]:
    """An API key of each role in a file of its own; the key file gets their hashes."""
    import secrets

    from cloud.cli.replacing import replace_text
    from cloud.fleet.setup.layout import Layout
    from cloud.gateway.api_key import make_key
    from cloud.gateway.guarded_file import read_guarded
    from cloud.gateway.key_file import KeyLine, with_key
    from cloud.gateway.roles import Role
    from shared.disk import write_whole

    at = Layout(folder.absolute())
    now = datetime.now(UTC).replace(microsecond=0)
    for role in ROLES:
        key = make_key(secrets.choice)
        line = KeyLine(
            id=key.id, name=role, roles=(Role(role),), sha256=key.digest.hex(), created=now
        )
        path = at.folder / "keys" / f"{role}.key"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(path, f"{key.text}\n".encode(), private=True)
        edit = partial(with_key, key=line, where=str(at.keys))
        replace_text(at.keys, read_guarded, edit)
        yield path
