"""The names of a model's labels: as the user gives them, else as the registry's manifest has them."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloud.cli.output import say

if TYPE_CHECKING:
    from cloud.registry.client.client import RegistryClient
    from cloud.registry.documents import ModelVersion

_PATIENCE_S: Final = 1.0
Names = tuple[str, ...]


def names_from(
    given: str | None,
    registry: list[str] | None,
    key_file: Path | None,
    model: str | None,
    version: str | None = None,
) -> Names:
    """Empty where they are not known: numbers do. Raises `Malformed` for `--labels` without names.

    `version`: None takes the current one, or the newest.
    """
    if given is not None:
        return _given(given)
    if not registry or model is None:
        return ()
    from shared.errors import HybridgeError

    try:
        return asyncio.run(_asked(registry, key_file, model, version))
    except HybridgeError as error:
        say(f"labels are shown as numbers: {error}")
        return ()


def _given(text: str) -> Names:
    from shared.errors import Malformed

    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise Malformed("--labels: write each label's name once, from 0, as shirt,dress,coat")
    return names


async def _asked(urls: list[str], key_file: Path | None, model: str, version: str | None) -> Names:
    from cloud.registry.client.client import RegistryClient
    from cloud.registry.client.fetch import fetch_manifest
    from cloud.registry.client.settings import ClientSettings

    settings = ClientSettings(patience_s=_PATIENCE_S)
    async with RegistryClient(urls, _key(key_file), settings) as registry:
        found = await _version(registry, model, version)
        return (await fetch_manifest(registry, found)).labels


async def _version(registry: "RegistryClient", model: str, version: str | None) -> "ModelVersion":
    from shared.errors import Unknown

    wanted = version or (await registry.model(model)).current
    if wanted is not None:
        return await registry.version(model, wanted)
    if not (known := await registry.versions(model)):
        raise Unknown(f"{model} has no version in the registry")
    return known[-1]


def _key(key_file: Path | None) -> str | None:
    """The registry's own from the environment, else the one that the learning process is given."""
    from cloud.cli.api_key import read_key
    from cloud.cli.learning_session import learning_key

    return read_key(None) if os.environ.get("HYBRIDGE_API_KEY") else learning_key(key_file)
