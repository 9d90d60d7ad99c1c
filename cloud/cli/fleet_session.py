"""How commands ask a fleet: which one, as whom, and what its refusals are to the shell."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cloud.cli.api_key import read_key
from cloud.cli.registry_session import PATIENCE, Code, ending

if TYPE_CHECKING:
    from cloud.fleet.client.client import FleetClient
    from cloud.fleet.client.settings import FleetClientSettings

T = TypeVar("T")
URL = "HYBRIDGE_FLEET"
"""Environment variable: the fleet's URL."""
KEY = "HYBRIDGE_FLEET_KEY"
"""Environment variable: the API key, where it is another than HYBRIDGE_API_KEY."""

Fleet = Annotated[
    list[str] | None,
    typer.Option(
        "--fleet",
        metavar="URL",
        envvar=URL,
        help="The region's fleet; may repeat: tried in order.",
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help=f"Holds the API key. Default: {KEY} or HYBRIDGE_API_KEY, if set.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Comment = Annotated[
    str, typer.Option("--comment", "-m", help="Why; stays in the log.", show_default=False)
]
CODES = (
    "Exit codes: 0 done, 1 refused or unhealthy, 2 wrong usage, 3 the fleet cannot be reached, "
    "4 conflict: somebody was first."
)


def ask(
    urls: list[str] | None,
    key_file: Path | None,
    work: "Callable[[FleetClient], Awaitable[T]]",
    *,
    stopped: str | None = "error: stopped",
    device: str | None = None,
    group: str | None = None,
    rollout: str | None = None,
) -> T:
    """Run `work` with a client. What is refused ends the command: one line on stderr, and its code.

    `stopped`: what Ctrl-C says; None: nothing, the caller does.
    `device`, `group`, `rollout`: what the user named, to suggest another where there is none such.
    """
    if not urls:
        raise typer.BadParameter(f"name the fleet: --fleet URL, or {URL}")
    from cloud.fleet.client.client import FleetClient
    from shared.errors import NotTrusted, Unknown

    settings = _settings()

    async def asked() -> T:
        key = fleet_key(key_file)
        async with FleetClient(urls, key, settings) as fleet:
            try:
                return await work(fleet)
            except Unknown as error:
                words = await _suggestion(fleet, device, group, rollout)
                raise Unknown(f"{error}{words}") from error
            except NotTrusted as error:
                if key is None:
                    raise NotTrusted(f"{error}; give --key-file or {KEY}") from error
                raise

    with ending(unavailable=Code.UNREACHABLE):
        try:
            return asyncio.run(asked())
        except KeyboardInterrupt:
            if stopped is not None:
                sys.stderr.write(f"{stopped}\n")
            raise typer.Exit(Code.STOPPED) from None


def fleet_key(file: Path | None) -> str | None:
    """None where there is none. Raises `Malformed`."""
    from shared.api_key import is_key
    from shared.errors import Malformed

    key = os.environ.get(KEY, "").strip()
    if file is not None or not key:
        return read_key(file)
    if not is_key(key):
        raise Malformed(f"{KEY}: holds no API key: want one word")
    return key


def _settings() -> "FleetClientSettings":
    from pydantic import ValidationError

    from cloud.fleet.client.settings import FleetClientSettings

    given = os.environ.get(PATIENCE)
    try:
        return (
            FleetClientSettings() if given is None else FleetClientSettings(patience_s=given)  # type: ignore[arg-type]  # pydantic reads it
        )
    except ValidationError as error:
        raise typer.BadParameter(f"{PATIENCE}: {str(given)[:40]!r}: want seconds, as 15") from error


async def _suggestion(
    fleet: "FleetClient", device: str | None, group: str | None, rollout: str | None
) -> str:
    from cloud.cli.suggest import question
    from shared.errors import HybridgeError

    wrong = device or group or rollout
    if wrong is None:
        return ""
    try:
        if device is not None:
            names = [one.id for one in await fleet.devices(at_most=fleet.settings.page)]
        elif group is not None:
            names = [one.name for one in await fleet.groups()]
        else:
            names = [one.id for one in await fleet.rollouts.all()]
    except HybridgeError:
        return ""
    return "" if wrong in names else question(wrong, names)
