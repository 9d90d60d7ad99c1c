"""An issuer's public keys: a JSON Web Key Set (RFC 7517) with Ed25519 keys (RFC 8037). Pure."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from shared.errors import Malformed, TooLarge

SET_BYTES_MAX: Final = 256 << 10
KEYS_MAX: Final = 100
KEY_ID_MAX: Final = 256
_ALGORITHMS: Final = (None, "EdDSA", "Ed25519")


@dataclass(frozen=True, slots=True)
class KeySet:
    """Public keys by `kid`; one without a `kid` stands under the empty one."""

    raw: Mapping[str, bytes]  # 32 bytes each

    def find(self, key_id: str | None) -> Ed25519PublicKey | None:
        """Give the key of that id; a token without one is taken to mean the only key there is."""
        if key_id is None:
            found = next(iter(self.raw.values())) if len(self.raw) == 1 else None
        else:
            found = self.raw.get(key_id)
        return None if found is None else Ed25519PublicKey.from_public_bytes(found)

    def keeps_all_of(self, other: "KeySet") -> bool:
        """Whether whatever the other vouched for, this one still does."""
        return all(self.raw.get(name) == key for name, key in other.raw.items())


def parse_jwks(body: bytes, where: str) -> KeySet:
    """Read a key set. Keys of other kinds and for other uses are passed over.

    Raises:
        TooLarge: over 256 KiB or 100 keys.
        Malformed: not a key set, no Ed25519 key in it, two keys of one id, or a private key.

    """
    if len(body) > SET_BYTES_MAX:
        raise TooLarge(f"{where}: over {SET_BYTES_MAX >> 10} KiB; this is no key set")
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{where}: not JSON; want a JSON Web Key Set") from error
    entries = tree.get("keys") if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise Malformed(f'{where}: want a JSON Web Key Set, {{"keys": [...]}}')
    if len(entries) > KEYS_MAX:
        raise TooLarge(f"{where}: {len(entries)} keys; {KEYS_MAX} may be")
    keys: dict[str, bytes] = {}
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or not _is_ours(entry):
            continue
        at = f"{where}: keys[{place}]"
        name = entry.get("kid", "")
        if not isinstance(name, str) or len(name) > KEY_ID_MAX:
            raise Malformed(f"{at}: kid is a text of up to {KEY_ID_MAX} characters")
        if name in keys:
            raise Malformed(f"{at}: a second key with this kid; give each its own")
        keys[name] = _public_bytes(entry, at)
    if not keys:
        raise Malformed(
            f"{where}: no Ed25519 signing key in it; tokens of other keys are not taken"
        )
    return KeySet(keys)


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return (
        entry.get("kty") == "OKP"
        and entry.get("crv") == "Ed25519"
        and entry.get("use", "sig") == "sig"
        and entry.get("alg") in _ALGORITHMS
    )


def _public_bytes(entry: Mapping[str, Any], at: str) -> bytes:
    if "d" in entry:
        raise Malformed(f"{at}: holds a private key; publish public keys only, and change this one")
    text = entry.get("x")
    try:
        if not isinstance(text, str):
            raise TypeError(text)  # noqa: TRY301  the same words for all of it
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        Ed25519PublicKey.from_public_bytes(found)
    except (TypeError, ValueError) as error:
        raise Malformed(f"{at}: x is not an Ed25519 public key (32 bytes, base64url)") from error
    return found
