"""How commands ask a registry: which one, as whom, and what its refusals are to the shell."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cloud.cli.api_key import read_key

if TYPE_CHECKING:
    from cloud.registry.client.client import RegistryClient
    from cloud.registry.client.settings import ClientSettings
    from shared.errors import HybridgeError

T = TypeVar("T")

Registry = Annotated[
    list[str] | None,
    typer.Option(
        "--registry",
        metavar="URL",
        envvar="HYBRIDGE_REGISTRY",
        help="The registry; may repeat: tried in order, the region's replica first, then home.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Why; stays in the log.")]
CODES = (
    "Exit codes: 0 done, 1 refused or unhealthy, 2 wrong usage, 3 the registry cannot be reached, "
    "4 conflict: somebody was first."
)


PATIENCE = "HYBRIDGE_PATIENCE_S"
"""Environment variable: for how many seconds a registry that does not answer is asked again."""


class Code(IntEnum):
    """Of the process's end."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    CONFLICT = 4
    STOPPED = 130  # by Ctrl-C, as shells count


def ask(
    urls: list[str] | None,
    key_file: Path | None,
    work: "Callable[[RegistryClient], Awaitable[T]]",
    *,
    model: str | None = None,
    version: str | None = None,
    stopped: str = "stopped",
) -> T:
    """Run `work` with a client. What is refused ends the command: one line on stderr, and its code.

    `model`, `version`: what the user named, to suggest another where the registry has none such.
    """
    if not urls:
        raise typer.BadParameter("name the registry: --registry URL, or HYBRIDGE_REGISTRY")
    from cloud.registry.client.client import RegistryClient
    from shared.errors import NotTrusted, Unknown

    key, settings = read_key(key_file), _settings()

    async def asked() -> T:
        async with RegistryClient(urls, key, settings) as registry:
            try:
                return await work(registry)
            except Unknown as error:
                raise Unknown(f"{error}{await _suggestion(registry, model, version)}") from error
            except NotTrusted as error:
                if key is None:
                    raise NotTrusted(f"{error}; give --key-file or HYBRIDGE_API_KEY") from error
                raise

    with ending(stopped, Code.UNREACHABLE):
        return asyncio.run(asked())


def _settings() -> "ClientSettings":
    """The client's own, but for how long somebody who is in a hurry, or is not, will wait."""
    from pydantic import ValidationError

    from cloud.registry.client.settings import ClientSettings

    given = os.environ.get(PATIENCE)
    try:
        return ClientSettings() if given is None else ClientSettings(patience_s=given)  # type: ignore[arg-type]  # pydantic reads it
    except ValidationError as error:
        raise typer.BadParameter(f"{PATIENCE}: {str(given)[:40]!r}: want seconds, as 15") from error


@contextmanager
def ending(stopped: str = "stopped", unavailable: Code = Code.REFUSED) -> Iterator[None]:
    """A refusal in it ends the command: one line on stderr, and its exit code.

    `unavailable`: the code where something is away; here, on this machine, that is a full disk.
    """
    from shared.errors import HybridgeError

    try:
        yield
    except HybridgeError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        raise typer.Exit(code_of(error, unavailable)) from None
    except KeyboardInterrupt:
        sys.stderr.write(f"error: {stopped}\n")
        raise typer.Exit(Code.STOPPED) from None


def code_of(error: "HybridgeError", unavailable: Code = Code.UNREACHABLE) -> Code:
    """The exit code that a refusal has."""
    from shared.errors import Conflict, Unavailable

    if isinstance(error, Conflict):
        return Code.CONFLICT
    return unavailable if isinstance(error, Unavailable) else Code.REFUSED


async def _suggestion(registry: "RegistryClient", model: str | None, version: str | None) -> str:
    from cloud.cli.suggest import question, version_question
    from shared.errors import HybridgeError

    if model is None:
        return ""
    try:
        models = [one.name for one in await registry.models()]
        if model not in models:
            return question(model, models)
        if version is None:
            return ""
        versions = [one.version for one in await registry.versions(model)]
        return "" if version in versions else version_question(version, versions)
    except HybridgeError:
        return ""
