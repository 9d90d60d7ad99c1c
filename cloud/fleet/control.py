"""What a request may ask of a fleet: the store, the driver, the devices themselves, the registry."""

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from cloud.fleet.api.schemas import ModelSubjectRequest, RolloutRequest
from cloud.fleet.asks import Asks
from cloud.fleet.devices import Fleet
from cloud.fleet.drift.drifting import Drifting
from cloud.fleet.driving.driver import Driver
from cloud.fleet.happened import Happened
from cloud.fleet.publishing import Publishing
from cloud.fleet.released import Released
from cloud.rollouts.documents import ModelSubject, ProfileSubject, RolloutSpec
from cloud.rollouts.events import Removed, Returned
from shared.errors import Conflict

P = ParamSpec("P")
T = TypeVar("T")


class Control:
    def __init__(
        self,
        name: str,
        fleet: Fleet,
        driver: Driver,
        asks: Asks,
        publishing: Publishing,
        released: Released,
        happened: Happened,
        drifting: Drifting,
        certificates_revoked: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        """`name`: the region's; `certificates_revoked` has the broker's list written anew."""
        self.name: Final = name
        self.fleet: Final = fleet
        self.driver: Final = driver
        self.asks: Final = asks
        self.publishing: Final = publishing
        self.happened: Final = happened
        self.drifting: Final = drifting
        self.certificates_revoked: Final = certificates_revoked
        self.now: Final = now
        self._released = released

    async def change(self, how: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Change the store, and have everybody look who waits for changes. Raises as `how`."""
        made = await asyncio.to_thread(how, *args, **kwargs)
        self.changed()
        return made

    def changed(self) -> None:
        self.driver.settle()
        self.happened.look()

    def left(self, device: str, why: str) -> None:
        """Rollouts that have the device are told that no order reaches it any more."""
        self.driver.happened(Removed(device, why))

    def returned(self, device: str) -> None:
        """Its quarantine is over."""
        self.driver.happened(Returned(device))

    async def released(self, model: str, version: str, given: str | None = None) -> str:
        """SHA-256 of the manifest. Raises as `Released.manifest`."""
        return await self._released.manifest(model, version, given)

    async def specified(self, asked: RolloutRequest) -> RolloutSpec:
        """With the hashes that the registry and the fleet know.

        Raises as `Released.manifest`; `Unknown` and `Conflict` for a profile's version.
        """
        fields = asked.model_dump(exclude={"subject"})
        subject: ModelSubject | ProfileSubject
        if isinstance(asked.subject, ModelSubjectRequest):
            found = asked.subject
            sha256 = await self.released(found.model, found.version, found.manifest_sha256)
            subject = ModelSubject(model=found.model, version=found.version, manifest_sha256=sha256)
        else:
            named = asked.subject
            profile = await asyncio.to_thread(self.fleet.profile, named.name, named.version)
            if named.sha256 is not None and named.sha256 != profile.sha256:
                raise Conflict(
                    f"profile {named.name} {named.version}: sha256 is {named.sha256}, as pushed it "
                    f"is {profile.sha256}; leave it out to take that"
                )
            subject = ProfileSubject(
                name=profile.name, version=profile.version, sha256=profile.sha256
            )
        fields["seed"] = fields["seed"] or _seed(subject, asked.group)
        return RolloutSpec.model_validate({**fields, "subject": subject})


def _seed(subject: ModelSubject | ProfileSubject, group: str) -> str:
    """The same for a plan and what is made after it; another canary with each version."""
    name = subject.model if isinstance(subject, ModelSubject) else subject.name
    return f"{subject.version}-{name}-{group}"[:64]
