"""When a certificate is renewed, and who may. Pure.

The region judges by its own clock alone: a device's may be wrong. The old certificate is not
revoked by a renewal; it stays good until its end, so that nothing is lost with the answer.
"""

from collections.abc import Collection
from typing import Final

from cloud.fleet.identity.peers import PeerCertificate
from shared.errors import Forbidden, NotTrusted
from shared.ids import DeviceId

RENEW_FROM: Final = 2 / 3
"""Of its life. A device that is off for the last third still has its grace."""
_DAY_S: Final = 86_400.0


def renew_after(not_before: float, not_after: float) -> float:
    """When a device should first ask, in Unix seconds; it adds its own jitter."""
    return not_before + (not_after - not_before) * RENEW_FROM


def check_renewal(
    shown: PeerCertificate,
    now: float,
    *,
    grace_days: float,
    revoked: Collection[str],
    is_enrolled: bool,
) -> DeviceId:
    """The device that gets a new certificate for the one that it showed over TLS.

    `revoked` are serials; `is_enrolled`: the region knows the device and has not revoked it whole.
    One that has expired is good for this, and for nothing else, for `grace_days`: TLS has shown
    that whoever asks has its key.

    Raises:
        Forbidden: it was revoked, or the device was, or it is not known any more.
        NotTrusted: it expired longer ago; the device must be enrolled again.

    """
    if shown.serial in revoked or not is_enrolled:
        raise Forbidden(
            f"{shown.device}: its certificate {shown.serial} was revoked, or the device is no "
            "longer known; enrol it again with a new token"
        )
    late_days = (now - shown.not_after) / _DAY_S
    if late_days > grace_days:
        raise NotTrusted(
            f"{shown.device}: its certificate expired {late_days:.0f} days ago, and {grace_days:g} "
            "are allowed; enrol it again with a new token"
        )
    return shown.device
