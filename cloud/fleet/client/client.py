"""A region's fleet as its documents and commands, over HTTP. Rollouts: `rollouts.py`; drift: `drift.py`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from random import Random
from ssl import SSLContext
from types import TracebackType
from typing import Final, Literal, Self

from cloud.fleet.client.drift import Drift
from cloud.fleet.client.pages import DevicePage, FleetState, TokenMade
from cloud.fleet.client.reading import many, one, read
from cloud.fleet.client.rollouts import Rollouts
from cloud.fleet.client.settings import FleetClientSettings
from cloud.fleet.documents import Device, EnrolmentToken, FleetEvent, Group, Profile
from cloud.registry.client.connection import Connection, quoted
from shared.errors import TooLarge
from shared.fleet.asking import Told

Query = dict[str, str | int | float | None]


class FleetClient:
    """`async with FleetClient(urls, key) as fleet: ...`; URLs are tried in their order.

    Everything raises what the fleet refuses with, in its words (`Unknown`, `Conflict`, ...), and
    `Unavailable` when it cannot be reached or puts a call off beyond `ClientSettings.patience_s`.
    `revision`: what was seen last; `Conflict` when it has changed since.
    """

    def __init__(
        self,
        urls: Sequence[str],
        key: str | None = None,
        settings: FleetClientSettings | None = None,
        rng: Random | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        """`tls`: None takes the system's authorities."""
        self.settings: Final = settings or FleetClientSettings()
        self.connection: Final = Connection(urls, key, self.settings, rng, tls, what="fleet")
        self.rollouts: Final = Rollouts(self.connection, self.settings)
        self.drift: Final = Drift(self.connection, self.settings)

    async def __aenter__(self) -> Self:
        await self.connection.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.connection.__aexit__(kind, error, trace)

    async def state(self) -> FleetState:
        return await one(self.connection, FleetState, "GET", "/v1/fleet")

    async def events(
        self,
        after: int = 0,
        limit: int = 500,
        wait_s: float = 0.0,
        *,
        device: str | None = None,
        rollout: str | None = None,
    ) -> list[FleetEvent]:
        """Those after that one, the oldest first; waits up to `wait_s` seconds for the first."""
        query: Query = {
            "after": after, "limit": limit, "wait_s": min(wait_s, self.settings.wait_s) or None,
            "device": device, "rollout": rollout,
        }  # fmt: skip
        return await many(self.connection, FleetEvent, "events", "/v1/events", query)

    # devices

    async def devices(self, selector: str = "", at_most: int | None = None) -> list[Device]:
        """All that the selector takes, page by page. Raises `TooLarge` over `devices_max`."""
        found: list[Device] = []
        async for page in self._pages(selector, at_most):
            found += page
            if at_most is not None and len(found) >= at_most:
                return found[:at_most]
            if len(found) > self.settings.devices_max:
                raise TooLarge(
                    f"over {self.settings.devices_max} devices; narrow them with a selector"
                )
        return found

    async def _pages(self, selector: str, at_most: int | None) -> AsyncIterator[tuple[Device, ...]]:
        after: str | None = None
        limit = min(self.settings.page, at_most or self.settings.page)
        while True:
            query: Query = {"selector": selector or None, "after": after, "limit": limit}
            found = await self.connection.json("GET", "/v1/devices", query=query)
            page = read(DevicePage, found, "/v1/devices")
            yield page.devices
            # names rise from page to page: an answer that goes round ends here
            if page.next is None or not page.devices or (after is not None and page.next <= after):
                return
            after = page.next

    async def device(self, device: str) -> Device:
        return await one(self.connection, Device, "GET", _device(device))

    async def label(
        self, device: str, labels: Mapping[str, str], revision: int | None = None
    ) -> Device:
        """Its labels are these from now on, and no others."""
        path = f"{_device(device)}/labels"
        return await one(self.connection, Device, "PUT", path, {"labels": dict(labels)}, revision)

    async def judge(
        self,
        verb: Literal["revoke", "release"],
        device: str,
        comment: str,
        revision: int | None = None,
    ) -> Device:
        """revoke: its certificates are worth nothing from now on; release: from quarantine."""
        path = f"{_device(device)}/{verb}"
        return await one(self.connection, Device, "POST", path, {"comment": comment}, revision)

    async def quarantine(
        self, device: str, comment: str, until: float | None, revision: int | None = None
    ) -> Device:
        """`until`: Unix seconds; None: until somebody ends it."""
        document = {"comment": comment, "until": until}
        path = f"{_device(device)}/quarantine"
        return await one(self.connection, Device, "POST", path, document, revision)

    async def logs(self, device: str, lines: int) -> Told:
        """The newest lines of its agent's log. `Unavailable` while it is away."""
        path = f"{_device(device)}/logs"
        found = await self.connection.json("GET", path, query={"lines": lines})
        return read(Told, found, path)

    async def remove(self, device: str, comment: str, revision: int) -> None:
        """Forget it."""
        query = {"comment": comment}
        await self.connection.json("DELETE", _device(device), query=query, revision=revision)

    async def make_token(
        self, device: str | None, labels: Mapping[str, str], ttl_s: float
    ) -> TokenMade:
        """For one enrolment, within `ttl_s` seconds; None: whoever has it names the device."""
        document = {"device": device, "labels": dict(labels), "ttl_s": ttl_s}
        return await one(self.connection, TokenMade, "POST", "/v1/tokens", document)

    async def tokens(self) -> list[EnrolmentToken]:
        return await many(self.connection, EnrolmentToken, "tokens", "/v1/tokens")

    async def revoke_token(self, token: str) -> None:
        await self.connection.json("DELETE", f"/v1/tokens/{quoted(token)}")

    # groups and profiles

    async def groups(self) -> list[Group]:
        return await many(self.connection, Group, "groups", "/v1/groups")

    async def group(self, name: str) -> Group:
        return await one(self.connection, Group, "GET", _group(name))

    async def put_group(self, name: str, selector: str, priority: int, revision: int) -> Group:
        """Make it (revision 0) or change it; what its devices have stays."""
        document = {"selector": selector, "priority": priority}
        return await one(self.connection, Group, "PUT", _group(name), document, revision)

    async def remove_group(self, name: str, comment: str, revision: int) -> None:
        query = {"comment": comment}
        await self.connection.json("DELETE", _group(name), query=query, revision=revision)

    async def set_baseline(
        self,
        name: str,
        model: str,
        version: str,
        manifest_sha256: str | None = None,
        revision: int | None = None,
    ) -> Group:
        """What its devices have from now on, without a rollout's evidence.

        `manifest_sha256`: None where the fleet has a registry to ask.
        """
        path = f"{_group(name)}/baseline/{quoted(model)}"
        document = {"version": version, "manifest_sha256": manifest_sha256}
        return await one(self.connection, Group, "PUT", path, document, revision)

    async def set_group_profile(
        self, name: str, profile: str, version: int, revision: int | None = None
    ) -> Group:
        """As `set_baseline`, for the device profile."""
        document = {"name": profile, "version": version}
        path = f"{_group(name)}/profile"
        return await one(self.connection, Group, "PUT", path, document, revision)

    async def profiles(self, name: str | None = None) -> list[Profile]:
        """None: the versions of all of them."""
        path = "/v1/profiles" if name is None else f"/v1/profiles/{quoted(name)}"
        return await many(self.connection, Profile, "profiles", path)

    async def push_profile(
        self, name: str, version: int, settings: Mapping[str, object]
    ) -> Profile:
        """The same again changes nothing; another content under its number is a `Conflict`."""
        path = f"/v1/profiles/{quoted(name)}/{version}"
        return await one(self.connection, Profile, "PUT", path, {"settings": dict(settings)})


def _device(name: str) -> str:
    return f"/v1/devices/{quoted(name)}"


def _group(name: str) -> str:
    return f"/v1/groups/{quoted(name)}"
