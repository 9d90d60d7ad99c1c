"""Every error the two ends raise on purpose.

HybridgeError
├── Refused            the caller must change something before trying again
│   ├── Malformed          a message, file or setting does not fit its schema
│   ├── TooLarge           an input is over its stated bound
│   ├── Unknown            a name (model, output, sample, engine) that is not here
│   ├── NotTrusted         a signature, hash or identity does not check out
│   ├── Forbidden          whoever asks is known, and may not do this
│   ├── InUse              another process holds what this one needs (state directory, port)
│   ├── Conflict           somebody else changed it first, or its state does not allow this
│   └── ReadOnly           a replica was asked to change something; the home can
└── Unavailable        the same call may succeed later
    ├── Overloaded         a bounded queue, store or budget is full
    ├── DeadlineMissed     the answer cannot come, or did not come, in time
    └── Disconnected       the other end cannot be reached

A message says what was wrong, where, and what to do. Transports translate at their own edge
(`*/api/problems.py`: Refused -> 4xx, Unavailable -> 503). Nothing in here knows HTTP or MQTT.
"""


class HybridgeError(Exception):
    """Base of everything raised on purpose; anything else is a bug."""


class Refused(HybridgeError):
    """The caller must change something before trying again."""


class Malformed(Refused):
    """A message, file or setting does not fit its schema."""


class TooLarge(Refused):
    """An input is over its stated bound."""


class Unknown(Refused):
    """A name that is not here: a model, an output, a sample, an engine."""


class NotTrusted(Refused):
    """A signature, hash or identity does not check out."""


class Forbidden(Refused):
    """Whoever asks is known, and may not do this."""


class InUse(Refused):
    """Another process holds what this one needs: a state directory, a port."""


class Conflict(Refused):
    """Somebody else changed it first, or the state that it is in does not allow this."""


class ReadOnly(Refused):
    """A replica was asked to change something, which only its home may."""


class Unavailable(HybridgeError):
    """The same call may succeed later; `retry_after_s` from now, where that is known."""

    retry_after_s: float | None = None

    def __init__(self, message: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s


class Overloaded(Unavailable):
    """A bounded queue, store or budget is full."""


class DeadlineMissed(Unavailable):
    """The answer cannot come, or did not come, in time."""


class Disconnected(Unavailable):
    """The other end cannot be reached."""
