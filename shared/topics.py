"""The topic tree, in one place: build and parse side by side.

hy/v1/{device}/up/esc      escalations and audits, msgpack, QoS 1     device -> workers
hy/v1/{device}/up/state    presence, flat JSON, retained, last will   device -> anyone
hy/v1/{device}/down/ans    answers and refusals, msgpack, QoS 1       worker -> device
"""

from shared.errors import Malformed
from shared.ids import DeviceId, device_id

ESCALATIONS_SHARED = "$share/workers/hy/v1/+/up/esc"
STATES = "hy/v1/+/up/state"


def escalations(device: DeviceId) -> str:
    return f"hy/v1/{device}/up/esc"


def state(device: DeviceId) -> str:
    return f"hy/v1/{device}/up/state"


def answers(device: DeviceId) -> str:
    return f"hy/v1/{device}/down/ans"


def device_of_escalation(topic: str) -> DeviceId:
    """The device that a topic names, which the broker's ACL vouches for; raises `Malformed`."""
    match topic.split("/"):
        case ["hy", "v1", device, "up", "esc"]:
            return device_id(device)
        case _:
            raise Malformed(f"not an escalation topic: {topic[:200]!r}")
