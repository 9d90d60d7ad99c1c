"""`hybridge registry init`: all that a new registry needs, in one folder, and where each part belongs."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.output import Format, Output, grid, say, show
from cloud.cli.registry_session import DryRun
from cloud.cli.signing_keys import PasswordFile

if TYPE_CHECKING:
    from cloud.gateway.api_key import ApiKey

ROLES = ("fetch", "viewer", "trainer", "approver", "operator")
_TOML = """\
# A registry: `hybridge-cloud registry --config registry.toml`. Settings: docs/registry.md
name = "{name}"
state_dir = "state"

[api]
host = "127.0.0.1" # this machine only; before others reach it, put TLS in front
port = {port}

[gateway]
key_file = "api-keys.jsonl" # `hybridge key add|list|remove api-keys.jsonl`

[trust]
online_keys = "keys/online" # a release.pem in there lets the registry release by itself
"""
_WHERE = """\
THE KEYS OF ONE REGISTRY, MADE IN ONE PLACE. THEY MUST NOT STAY IN ONE PLACE.
Whoever has enough of them decides what every device runs. Move each to where it belongs, and
delete it here. Nobody can recover a lost one; `docs/trust.md` says what to do then.

root-1.pem ...     {threshold} of {count} make a new root of trust. Offline (a stick in a safe), each with
                   another person, in another place. Needed once in years.
targets.pem        says which key may release which model. Offline, with whom decides that.
release.pem        names releases. With the operator who releases (`hybridge model release
                   --sign-with`); in online/ only if the registry is to release by itself.
online/            snapshot.pem and timestamp.pem: stay with the registry, which signs with them.
1.root.json        public. Every device and replica is given it, by a way that you trust.
1.targets.json     public. Both are handed in once: `hybridge registry keys publish`.
api/*.key          API keys, one for each role, for whom they are named. ../api-keys.jsonl has
                   their hashes only.
"""


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    *,
    name: Annotated[
        str, typer.Option(help="The registry's, for people and its replicas.")
    ] = "registry",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Of its API.")] = 8710,
    root_keys: Annotated[int, typer.Option(min=1, max=32, help="Keys of the root of trust.")] = 3,
    root_threshold: Annotated[
        int, typer.Option(min=1, max=32, help="So many of them must sign.")
    ] = 2,
    password_file: PasswordFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make keys, first trust metadata, registry.toml and an API key of each role.

    The keys lie in DIR/keys, with a file that says where each belongs: they must not stay together.
    With --password-file (or HYBRIDGE_KEY_PASSWORD) the offline ones are encrypted.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 4 there is a registry in DIR already.
    """
    from cloud.cli.registry_session import ending
    from cloud.registry.trust.keys import read_password

    with ending():
        password = read_password(password_file, os.environ)
        _check_empty(folder)
        _check_name(name)
        made = list(_files(root_keys))
        if not dry_run:
            _make(folder, name, port, root_keys, root_threshold, password)
    rows = [(str(folder / path), belongs) for path, belongs in made]
    tree = {
        "dry_run": dry_run, "folder": str(folder),
        "files": [{"path": path, "belongs": belongs} for path, belongs in rows],
    }  # fmt: skip
    title = "Would be made" if dry_run else "Made"
    show(tree, output, lambda out: grid(out, title, ("file", "where it belongs"), rows))
    if not dry_run:
        say(f"WARNING: all keys lie in {folder / 'keys'}: move each to where it belongs, now")
        say(f"next: hybridge-cloud registry --config {folder / 'registry.toml'}")
        say(
            f"then: hybridge registry keys publish {folder / 'keys/1.root.json'} "
            f"{folder / 'keys/1.targets.json'} --registry http://127.0.0.1:{port} "
            f"--key-file {folder / 'keys/api/operator.key'}"
        )


def _files(root_keys: int) -> Iterator[tuple[str, str]]:
    yield "registry.toml", "with the registry"
    yield "api-keys.jsonl", "with the registry: hashes of the API keys"
    yield "keys/WHERE-EACH-BELONGS.txt", "read it first"
    for number in range(1, root_keys + 1):
        yield f"keys/root-{number}.pem", "offline, with a person of its own"
    yield "keys/targets.pem", "offline, with whom decides who releases what"
    yield "keys/release.pem", "with the operator who releases"
    yield "keys/online/snapshot.pem", "with the registry"
    yield "keys/online/timestamp.pem", "with the registry"
    yield "keys/1.root.json", "public: with every device and replica"
    yield "keys/1.targets.json", "public"
    for role in ROLES:
        yield f"keys/api/{role}.key", f"with whom is {role}"


def _check_empty(folder: Path) -> None:
    from shared.errors import Conflict, Malformed

    if folder.exists() and not folder.is_dir():
        raise Malformed(f"{folder}: is no folder; name a new one")
    for path in ("registry.toml", "api-keys.jsonl", "keys"):
        if (folder / path).exists():
            raise Conflict(f"{folder / path}: is there already; name an empty folder")


def _check_name(name: str) -> None:
    import re

    from shared.errors import Malformed

    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name, re.ASCII):
        raise Malformed(f"--name {name[:80]!r}: want 1 to 64 of A-Z, a-z, 0-9, '_', '.' and '-'")


def _make(
    folder: Path, name: str, port: int, root_keys: int, root_threshold: int, password: bytes | None
) -> None:
    import secrets

    from cloud.gateway.api_key import make_key
    from cloud.registry.trust.ceremony import initialise
    from cloud.registry.trust.keys import write_new

    now = datetime.now(UTC).replace(microsecond=0)
    keys = folder / "keys"
    initialise(keys, now, root_keys=root_keys, root_threshold=root_threshold, password=password)
    where = _WHERE.format(threshold=root_threshold, count=root_keys)
    write_new(keys / "WHERE-EACH-BELONGS.txt", where.encode(), 0o644)
    made = {role: make_key(secrets.choice) for role in ROLES}
    for role, key in made.items():
        write_new(keys / "api" / f"{role}.key", f"{key.text}\n".encode(), 0o600)
    lines = "".join(_line(role, key, now) for role, key in made.items())
    write_new(folder / "api-keys.jsonl", lines.encode(), 0o600)
    write_new(folder / "registry.toml", _TOML.format(name=name, port=port).encode(), 0o644)


def _line(role: str, key: "ApiKey", now: datetime) -> str:
    from cloud.gateway.key_file import KeyLine
    from cloud.gateway.roles import Role

    line = KeyLine(id=key.id, name=role, roles=(Role(role),), sha256=key.digest.hex(), created=now)
    return line.model_dump_json(exclude_none=True) + "\n"
