"""The broker's rules, the same for both brokers. Pure.

Also in `firmware_configs/broker/acl.conf`, for those who set a broker up by hand.
"""

from collections.abc import Iterable
from typing import Final

from shared.ids import device_id

_SHUT_OUT: Final = """
# Devices that were revoked. Mosquitto leaves a revoked certificate's open connection open, and reads
# this file again at SIGHUP: from then on it says and hears nothing.
"""


def acl(shut_out: Iterable[str] = ()) -> str:
    """The file's text; `shut_out` are devices that may do nothing, also where they are connected.

    Raises `Malformed` for what is no device id.
    """
    names = sorted({device_id(one) for one in shut_out})
    lines = "".join(f"user {name}\ntopic deny #\n" for name in names)
    return ACL + (_SHUT_OUT + lines if names else "")


ACL: Final = """\
# Who may publish and subscribe to what, for the embedded broker (--acl-file) and for Mosquitto
# (acl_file): one file, the same meaning in both. The syntax is in mosquitto.conf(5); where the
# embedded broker is stricter is in cloud/broker/access/acl.py. `hybridge fleet init` writes it too.
#
# A user name is the common name of a client's certificate, or a user of the password file:
#
#     hybridge broker passwd passwords worker        asks for the password twice
#     python -m cloud.broker --password-file passwords --acl-file acl.conf
#     kill -HUP <its process id>                     after a change of either file
#
# A device's user name is its device id, so %u below is the {device} of hy/v1/{device}/...; the
# client id may differ. No device may be called `worker`, `fleet`, `trust` or `tuf`: these names are
# taken, and enrolment refuses them.
# The cloud process that starts the embedded broker itself needs no line in here.
# What no line allows is denied.

# Clients without a user name: nothing, not even what the patterns below give to everybody.
topic deny #

# Cloud workers: escalations in, answers out, and whether the device is there.
user worker
topic read hy/v1/+/up/esc
topic read hy/v1/+/up/state
topic write hy/v1/+/down/ans

# The control plane: what devices report, and what they should be. It sees no sample and no answer.
user fleet
topic read hy/v1/+/up/state
topic read hy/v1/+/up/tel
topic read hy/v1/+/up/told
topic read hy/v1/+/up/reported/+
topic write hy/v1/+/down/desired/+
topic write hy/v1/+/down/ask

# Whoever signs what devices may run: trust metadata, retained.
user trust
topic readwrite hy/v1/tuf/+

# Devices, each its own topics, and the trust metadata (Mosquitto warns that this line names no %u).
pattern write hy/v1/%u/up/esc
pattern write hy/v1/%u/up/state
pattern write hy/v1/%u/up/tel
pattern write hy/v1/%u/up/told
pattern write hy/v1/%u/up/reported/+
pattern read hy/v1/%u/down/#
pattern read hy/v1/tuf/+
"""
