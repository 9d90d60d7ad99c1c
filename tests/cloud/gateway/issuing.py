"""A token issuer with real Ed25519 keys."""

import base64
import json
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cloud.gateway.jwks import KeySet, parse_jwks
from cloud.gateway.token import TokenRules

ISSUER, AUDIENCE = "https://login.example", "hybridge"
RULES = TokenRules(ISSUER, AUDIENCE, leeway_s=30, roles_claim="roles", token_bytes_max=4096)
AT = 1_800_000_000.0  # Unix time of everything here


def b64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


class Signer:
    """One key of an issuer."""

    def __init__(self, key_id: str | None = "k1") -> None:
        self.key_id = key_id
        self.private = Ed25519PrivateKey.generate()

    @property
    def raw(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    def jwk(self, **more: Any) -> dict[str, Any]:
        named = {} if self.key_id is None else {"kid": self.key_id}
        return {"kty": "OKP", "crv": "Ed25519", "x": b64(self.raw), **named, **more}

    def token(self, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A good token, but for what is given; a claim that is None is left out."""
        all_claims = {
            "iss": ISSUER, "aud": AUDIENCE, "sub": "line-3", "exp": AT + 3600, "iat": AT,
            "roles": ["infer"], **claims,
        }  # fmt: skip
        named = {} if self.key_id is None else {"kid": self.key_id}
        return jwt.encode(
            {name: value for name, value in all_claims.items() if value is not None},
            self.private,
            algorithm="EdDSA",
            headers={**named, **(headers or {})},
        )

    def raw_token(self, header: bytes, payload: bytes) -> str:
        """Any bytes, signed well."""
        text = f"{b64(header)}.{b64(payload)}"
        return f"{text}.{b64(self.private.sign(text.encode()))}"


def jwks(*signers: Signer) -> bytes:
    return json.dumps({"keys": [one.jwk() for one in signers]}).encode()


def key_set(*signers: Signer) -> KeySet:
    return parse_jwks(jwks(*signers), "keys")


def jwks_file(path: Path, *signers: Signer) -> Path:
    path.write_bytes(jwks(*signers))
    path.chmod(0o644)
    return path
