"""How commands ask a learning process: which one, as whom, and what its refusals are to the shell."""

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
    from cloud.learning.client.client import LearningClient
    from cloud.learning.client.settings import LearningClientSettings

T = TypeVar("T")
URL = "HYBRIDGE_LEARNING"
"""Environment variable: the learning process's URL."""
KEY = "HYBRIDGE_LEARNING_KEY"
"""Environment variable: the API key, where it is another than HYBRIDGE_API_KEY."""

Learning = Annotated[
    list[str] | None,
    typer.Option(
        "--learning",
        metavar="URL",
        envvar=URL,
        help="The region's learning process; may repeat: tried in order.",
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
CODES = (
    "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 the learning process cannot be "
    "reached, 4 conflict: somebody was first, or its state does not allow it."
)


def ask(
    urls: list[str] | None,
    key_file: Path | None,
    work: "Callable[[LearningClient], Awaitable[T]]",
    *,
    stopped: str | None = "error: stopped",
    job: str | None = None,
    loop: str | None = None,
    data_set: str | None = None,
) -> T:
    """Run `work` with a client. What is refused ends the command: one line on stderr, and its code.

    `stopped`: what Ctrl-C says; None: nothing, the caller does.
    `job`, `loop`, `data_set`: what the user named, to suggest another where there is none such.
    """
    if not urls:
        raise typer.BadParameter(f"name the learning process: --learning URL, or {URL}")
    from cloud.learning.client.client import LearningClient
    from shared.errors import NotTrusted, Unknown

    settings = _settings()

    async def asked() -> T:
        key = learning_key(key_file)
        async with LearningClient(urls, key, settings) as learning:
            try:
                return await work(learning)
            except Unknown as error:
                words = await _suggestion(learning, job, loop, data_set)
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


def learning_key(file: Path | None) -> str | None:
    """None where there is none. Raises `Malformed`."""
    from shared.api_key import is_key
    from shared.errors import Malformed

    key = os.environ.get(KEY, "").strip()
    if file is not None or not key:
        return read_key(file)
    if not is_key(key):
        raise Malformed(f"{KEY}: holds no API key: want one word")
    return key


def _settings() -> "LearningClientSettings":
    from pydantic import ValidationError

    from cloud.learning.client.settings import LearningClientSettings

    given = os.environ.get(PATIENCE)
    try:
        return (
            LearningClientSettings() if given is None else LearningClientSettings(patience_s=given)  # type: ignore[arg-type]  # pydantic reads it
        )
    except ValidationError as error:
        raise typer.BadParameter(f"{PATIENCE}: {str(given)[:40]!r}: want seconds, as 15") from error


async def _suggestion(
    learning: "LearningClient", job: str | None, loop: str | None, data_set: str | None
) -> str:
    from cloud.cli.suggest import question
    from shared.errors import HybridgeError

    wrong = job or loop or data_set
    if wrong is None:
        return ""
    try:
        if job is not None:
            names = [one.id for one in await learning.jobs.all(at_most=learning.settings.page)]
        elif loop is not None:
            names = [one.settings.model for one in await learning.loops.all()]
        else:
            names = [one.name for one in await learning.data_sets.all()]
    except HybridgeError:
        return ""
    return "" if wrong in names else question(wrong, names)
