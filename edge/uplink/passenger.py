"""Who else travels on the uplink's connection: a device has one."""

from typing import Protocol

from shared.mqtt.link import Delivery


class Passenger(Protocol):
    """All of it is called on the event loop and must return at once."""

    @property
    def subscriptions(self) -> tuple[str, ...]: ...

    def received(self, delivery: Delivery) -> None:
        """A message that is no answer; `ack` it once it is dealt with."""
        ...

    def came_up(self) -> None:
        """The link is (again) there; what was on its way may be lost."""
        ...
