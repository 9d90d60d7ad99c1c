"""Our own server as `hybridge-cloud serve` runs it, and the requests that it is measured with."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cloud.gateway.api_key import make_key
from cloud.gateway.key_file import KeyLine, with_key
from cloud.gateway.roles import Role
from simulations.serve_bench import wire_forms
from simulations.serve_bench.model import NAME, Material
from simulations.serve_bench.peers import Launch, Place, python_of_ours
from simulations.serve_bench.server import Server, free_ports, running
from simulations.serve_bench.wire_forms import Form, Request

CONFIG: Final = Path(__file__).parent / "ours.toml"
KEY_FILE: Final = "keys"
"""As `ours.toml` names it, from its own folder."""
READY: Final = b'"cloud_ready"'
"""It says so once all its processes can answer."""
PATH: Final = wire_forms.V2_PATH.format(model=NAME)


@dataclass(frozen=True, slots=True)
class Lane:
    """One way to ask."""

    name: str
    title: str
    form: Form
    path: str

    def request(self, material: Material, key: str) -> Request:
        return with_api_key(wire_forms.request(self.form, self.path, material.sample), key)


LANES: Final = (
    Lane("ours", "**Hybridge, 2 processes**", "v2-binary", PATH),
    # a query takes it past the fast lane
    Lane("ours-aiohttp", "Hybridge, its aiohttp lane", "v2-binary", f"{PATH}?lane=aiohttp"),
    Lane("ours-json", "Hybridge, V2 JSON", "v2-json", PATH),
)
"""The first is the one that targets are about, the others are for information."""


@dataclass(frozen=True, slots=True)
class Ours:
    server: Server
    key: str


def with_api_key(asked: Request, key: str) -> Request:
    """The same request from a caller with that key."""
    return replace(asked, headers={**asked.headers, "X-API-Key": key})


@contextmanager
def ours_running(
    bundle: Path,
    folder: Path,
    asked: Request,
    *,
    config: Path = CONFIG,
    prefix: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
) -> Iterator[Ours]:
    """Run it until the block ends, ready when it answers `asked`; `prefix` may pin it.

    Raises:
        Unavailable: it does not start, or does not answer.

    """
    folder.mkdir(parents=True)
    shutil.copy(config, folder / "config.toml")
    key = _write_key(folder / KEY_FILE)
    place = Place(python_of_ours(), folder, free_ports())
    launch = Launch((
        *prefix, str(place.python), "-m", "cloud", "serve", "--config", str(folder / "config.toml"),
        "--state-dir", str(folder / "state"), "--bundle", str(bundle),
        "--api-port", str(place.port), *arguments,
    ))  # fmt: skip
    with running("ours", launch, place, with_api_key(asked, key), READY) as server:
        yield Ours(server, key)


def _write_key(file: Path) -> str:
    made = make_key(secrets.choice)
    roles = (Role.INFER, Role.OBSERVE)
    line = KeyLine(id=made.id, name="bench", roles=roles, sha256=made.digest.hex())
    file.write_text(with_key("", line, str(file)))
    file.chmod(0o600)
    return made.text
