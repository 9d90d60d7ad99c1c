"""Whether the registry has released a version, and the hash of its manifest."""

import asyncio
import random

from cloud.fleet.settings import RegistryAsk
from cloud.registry.client.client import RegistryClient
from cloud.registry.client.credentials import credentials
from cloud.registry.client.settings import ClientSettings
from cloud.registry.documents import ModelVersion, State
from shared.errors import Conflict, HybridgeError, Malformed, NotTrusted, Unavailable, Unknown

_PATIENCE_S = 5.0  # an operator waits


class Released:
    """Asks one region's registry, anew each time: rollouts are rare."""

    def __init__(self, settings: RegistryAsk | None) -> None:
        self._settings = settings

    async def manifest(self, model: str, version: str, given: str | None = None) -> str:
        """SHA-256 of the version's manifest; `given` is checked against it where there is one.

        Raises:
            Malformed: no registry is configured and none was given.
            Unknown: there is no such version.
            Conflict: it is not released, or its manifest is another one.
            Unavailable: the registry is away, or does not let the fleet in.

        """
        if self._settings is None:
            if given is None:
                raise Malformed(
                    "manifest_sha256: is missing, and this fleet has no [registry] to ask; give it "
                    "(`hybridge model show` has it)"
                )
            return given
        found = await self._ask(self._settings, model, version)
        if found.state is not State.RELEASED:
            raise Conflict(
                f"{model} {version} is {found.state}, not released; devices would refuse it: "
                f"hybridge model release {model} {version}"
            )
        if given is not None and given != found.manifest.sha256:
            raise Conflict(
                f"{model} {version}: manifest_sha256 is {given}, the registry's is "
                f"{found.manifest.sha256}; leave it out to take that"
            )
        return found.manifest.sha256

    async def _ask(self, settings: RegistryAsk, model: str, version: str) -> ModelVersion:
        try:
            key, tls = await asyncio.to_thread(credentials, settings)
            async with RegistryClient(
                settings.urls, key, ClientSettings(patience_s=_PATIENCE_S),
                random.Random(), tls,  # noqa: S311  spreads retries
            ) as registry:  # fmt: skip
                return await registry.version(model, version)
        except (Unknown, Conflict):
            raise
        except (NotTrusted, Malformed) as error:  # of ours, not of who asks
            raise Unavailable(f"the registry does not answer this fleet: {error}") from error
        except Unavailable as error:
            raise Unavailable(
                f"the registry is away, so nobody says whether {model} {version} is released: "
                f"{error}; try again later",
                5.0,
            ) from error
        except HybridgeError as error:
            raise Unavailable(f"the registry does not answer this fleet: {error}") from error
