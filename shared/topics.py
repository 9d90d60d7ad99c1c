"""The topic tree, in one place: build and parse side by side.

hy/v1/{device}/up/esc      escalations and audits, msgpack, QoS 1     device -> workers
hy/v1/{device}/up/state    presence, flat JSON, retained, last will   device -> anyone
hy/v1/{device}/down/ans    answers and refusals, msgpack, QoS 1       worker -> device

Of the fleet (`shared/fleet/`), JSON, QoS 1:
hy/v1/{device}/down/desired/{section}   retained                      fleet -> device
hy/v1/{device}/up/reported/{section}    retained                      device -> anyone
hy/v1/{device}/up/tel                   telemetry                     device -> anyone
hy/v1/{device}/down/ask                 e.g. for the newest log lines fleet -> device
hy/v1/{device}/up/told                  the answer                    device -> fleet
"""

from shared.errors import Malformed
from shared.ids import DeviceId, device_id

ESCALATIONS_SHARED = "$share/workers/hy/v1/+/up/esc"
STATES = "hy/v1/+/up/state"
REPORTED = "hy/v1/+/up/reported/+"
TELEMETRY = "hy/v1/+/up/tel"
TOLD = "hy/v1/+/up/told"


def escalations(device: DeviceId) -> str:
    return f"hy/v1/{device}/up/esc"


def state(device: DeviceId) -> str:
    return f"hy/v1/{device}/up/state"


def answers(device: DeviceId) -> str:
    return f"hy/v1/{device}/down/ans"


def desired(device: DeviceId, section: str) -> str:
    return f"hy/v1/{device}/down/desired/{section}"


def reported(device: DeviceId, section: str) -> str:
    return f"hy/v1/{device}/up/reported/{section}"


def telemetry(device: DeviceId) -> str:
    return f"hy/v1/{device}/up/tel"


def ask(device: DeviceId) -> str:
    return f"hy/v1/{device}/down/ask"


def told(device: DeviceId) -> str:
    return f"hy/v1/{device}/up/told"


def fleet_message(topic: str) -> tuple[DeviceId, str]:
    """The device and what it says: "state", "tel", "told", "reported/{section}".

    The broker's ACL vouches for the device. Raises `Malformed`.
    """
    match topic.split("/"):
        case ["hy", "v1", device, "up", ("state" | "tel" | "told") as kind]:
            return device_id(device), kind
        case ["hy", "v1", device, "up", "reported", section]:
            return device_id(device), f"reported/{section}"
        case _:
            raise Malformed(f"not a topic of the fleet: {topic[:200]!r}")


def device_of_escalation(topic: str) -> DeviceId:
    """The device that a topic names, which the broker's ACL vouches for; raises `Malformed`."""
    match topic.split("/"):
        case ["hy", "v1", device, "up", "esc"]:
            return device_id(device)
        case _:
            raise Malformed(f"not an escalation topic: {topic[:200]!r}")
