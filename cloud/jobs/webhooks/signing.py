"""Standard Webhooks 1.0.0: three headers by which a receiver knows who sent a message. Pure.

The signature is HMAC-SHA256 over `id.timestamp.body`; each key gives one, separated by a space.
"""

import base64
import hmac
from collections.abc import Sequence


def signed_headers(
    message_id: str, unix_s: int, body: bytes, keys: Sequence[bytes]
) -> dict[str, str]:
    """`message_id` is the same in each attempt, so that a receiver knows a second copy."""
    signed = f"{message_id}.{unix_s}.".encode() + body
    signatures = (base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(unix_s),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
