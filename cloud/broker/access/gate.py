"""Who is let in, and as whom. Pure but for the slow hash that `PasswordCheck.run` computes.

A CONNECT is judged in this order (3.1.3.1, 3.1.3.5, 3.1.3.6; 5.4 leaves the means to the server):

1. The owner: the process that launched the broker shows a secret made for this run. Any client
   identifier, no topic rules. Its user name is taken: with another password, or in a certificate,
   it is refused, so a session that bears it was the owner's, also in an earlier run.
2. A client certificate: its common name is the user name; no password is needed or looked at. A
   CONNECT that names another user is refused with 0x87, not quietly renamed as Mosquitto does: it
   is a mistake in a configuration or an attempt. The client identifier is bound to the name: the
   same, or `name/...`, or empty, which stands for the name. So no device takes over the session of
   another. (An identifier with `/` satisfies no %c pattern; write ACLs for such clients with %u.)
   One that was revoked is refused with 0x87, where there is a list.
3. A user name, where there is a password file: 0x86 unless the password is right. It never falls
   back to anonymous. Client identifiers are bound to it as to a certificate's name if that is asked
   for; else whoever takes one first has it, as the specification knows no other owner.
4. Anything else is anonymous, if that is allowed. A user name that nothing can check is a claim,
   not an identity: it is dropped, and neither `user` lines nor %u of an ACL apply. Refusing it
   would lock out clients that fill the field in from habit, and would protect nothing.

A right password is remembered for the life of a `Gate`, as a keyed hash, so that a fleet that
reconnects does not pay the slow hash again. Files read anew make a new `Gate`, which knows nothing.
"""

import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from cloud.broker.access.acl import Acl
from cloud.broker.access.identity import Identity
from cloud.broker.access.passwords import Passwords
from cloud.broker.access.revocations import CertificateId, Revocations
from cloud.broker.access.rules import OPEN, Rules
from cloud.broker.codec.packets import Connect
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from shared.errors import Malformed

SECRET_BYTES_MIN: Final = 16
"""Of the owner's secret, which is compared without a slow hash."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Admission:
    """A client that may connect."""

    client_id: str
    identity: Identity
    rules: Rules
    is_assigned: bool
    """The client identifier was empty and this one stands for it: tell the client (3.2.2.3.7)."""


@dataclass(frozen=True, slots=True)
class PasswordCheck:
    """The slow part of letting a client in: run it on a thread, never on the event loop."""

    _gate: "Gate"
    _connect: Connect

    def run(self) -> Admission:
        """Check the password: some 40 ms and 16 MB.

        Raises:
            BrokenRule: 0x86, for an unknown user as for a wrong password, after the same time.

        """
        return self._gate.check_password(self._connect)


class Gate:
    """Judges each CONNECT by the files as they were read."""

    def __init__(
        self,
        passwords: Passwords | None,
        acl: Acl | None,
        *,
        allow_anonymous: bool,
        owner: tuple[str, bytes] | None,
        new_client_id: Callable[[], str],
        binds_client_ids: bool = False,
        trusts_certificates: bool = False,
        revocations: Revocations | None = None,
    ) -> None:
        """Keep the rules; `owner` is a user name and a secret of random bytes.

        `binds_client_ids`: users with a password too have client ids of their own name only.
        `trusts_certificates`: a user may be one of no password file. `revocations`: certificates
        that are refused all the same.

        Raises:
            Malformed: the secret is too short to be one.

        """
        if owner is not None and len(owner[1]) < SECRET_BYTES_MIN:
            raise Malformed(f"the owner's secret: give at least {SECRET_BYTES_MIN} random bytes")
        self._passwords = passwords
        self._acl = acl
        self._allow_anonymous = allow_anonymous
        self._owner = owner
        self._new_client_id = new_client_id
        self._binds_client_ids = binds_client_ids
        self._trusts_certificates = trusts_certificates
        self._revocations = revocations
        self._key = secrets.token_bytes(32)
        self._verified: dict[str, bytes] = {}
        """By user name, the keyed hash of the password: the file's users bound it."""

    def identify(
        self,
        connect: Connect,
        certificate_name: str | None,
        certificate: CertificateId | None = None,
    ) -> Admission | PasswordCheck:
        """Judge a CONNECT; `certificate_name` is the verified certificate's common name, or "".

        None says that the connection showed no certificate. `certificate` is which one it was.

        Raises:
            BrokenRule: 0x85 for a client identifier, 0x86 for missing or wrong credentials, 0x87
                for a certificate that names nobody or another than the CONNECT, or was revoked.

        """
        if _CONTROL.search(connect.client_id):
            # 1.5.4 lets a server refuse them; they would forge lines of logs and of `sessions`
            why = "a client identifier holds a control character"
            raise BrokenRule(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
        if self._owner is not None and connect.username == self._owner[0]:
            if not hmac.compare_digest(connect.password or b"", self._owner[1]):
                raise _bad_credentials()
            return self._admit(connect, connect.username, is_owner=True)
        if certificate_name is not None:
            return self._by_certificate(connect, certificate_name, certificate)
        if connect.username is not None and self._passwords is not None:
            if connect.password is None:
                raise _bad_credentials()
            remembered = self._verified.get(connect.username, b"")
            if hmac.compare_digest(remembered, self._hash(connect.password)):
                return self._admit(connect, connect.username, is_bound=self._binds_client_ids)
            return PasswordCheck(self, connect)
        if not self._allow_anonymous:
            raise _bad_credentials()
        return self._admit(connect, None)

    def check_password(self, connect: Connect) -> Admission:
        """Do what `PasswordCheck.run` says; safe on any thread."""
        username, password = connect.username, connect.password
        assert self._passwords is not None
        assert username is not None
        assert password is not None
        if not self._passwords.verify(username, password):
            raise _bad_credentials()
        self._verified[username] = self._hash(password)  # atomic
        return self._admit(connect, username, is_bound=self._binds_client_ids)

    def rules_for(self, identity: Identity) -> Rules:
        """Give the topic rules for a client: a session of the store, or any after a reload."""
        was_owner = self._owner is not None and identity.username == self._owner[0]
        return OPEN if self._acl is None or was_owner else self._acl.rules(identity)

    def keeps(
        self,
        identity: Identity,
        certificate_name: str | None,
        before: "Gate",
        certificate: CertificateId | None = None,
    ) -> bool:
        """Say whether a client that `before` let in may stay, now that the files were read anew.

        It may unless its way in is gone: its certificate was revoked, its line of the password file
        was changed or removed, or it is anonymous and that is no longer allowed.
        """
        if identity.is_owner:
            return True
        if certificate_name is not None:
            return self._is_good(certificate)
        if identity.username is None:
            return self._allow_anonymous
        line = self._line(identity.username)
        return line is not None and line == before._line(identity.username)  # noqa: SLF001  its own

    def may_return(self, username: str | None) -> bool:
        """Say whether a user who is away could come in again, as far as the files tell."""
        if username is None:
            return self._allow_anonymous
        is_owner = self._owner is not None and username == self._owner[0]
        return is_owner or self._trusts_certificates or self._line(username) is not None

    def _line(self, username: str) -> object:
        return None if self._passwords is None else self._passwords.entries.get(username)

    def _is_good(self, certificate: CertificateId | None) -> bool:
        return self._revocations is None or self._revocations.allows(certificate)

    def _by_certificate(
        self, connect: Connect, name: str, certificate: CertificateId | None
    ) -> Admission:
        if not name or _CONTROL.search(name) or any(mark in name for mark in "+#/"):
            why = f"certificate name {name[:80]!r}: it must not be empty or hold + # /"
            raise BrokenRule(ReasonCode.NOT_AUTHORIZED, why)
        if connect.username is not None and connect.username != name:
            why = f"the certificate of {name!r} does not speak for user {connect.username[:80]!r}"
            raise BrokenRule(ReasonCode.NOT_AUTHORIZED, why)
        if self._owner is not None and name == self._owner[0]:
            why = f"certificate name {name!r} is the owner's, who shows a secret instead"
            raise BrokenRule(ReasonCode.NOT_AUTHORIZED, why)
        if not self._is_good(certificate):
            why = f"the certificate that {name!r} showed was revoked"
            raise BrokenRule(ReasonCode.NOT_AUTHORIZED, why)
        return self._admit(connect, name, is_bound=True)

    def _admit(
        self,
        connect: Connect,
        username: str | None,
        *,
        is_bound: bool = False,
        is_owner: bool = False,
    ) -> Admission:
        asked = connect.client_id
        if is_bound and username is not None:
            if asked and asked != username and not asked.startswith(username + "/"):
                why = (
                    f"client identifier {asked[:80]!r}: want {username!r} or {username + '/...'!r}"
                )
                raise BrokenRule(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
            client_id = asked or username
        else:
            client_id = asked or self._new_client_id()
        identity = Identity(client_id, username, is_owner)
        return Admission(client_id, identity, self.rules_for(identity), not connect.client_id)

    def _hash(self, password: bytes) -> bytes:
        return blake2b(password, key=self._key).digest()


def _bad_credentials() -> BrokenRule:
    return BrokenRule(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "user name and password are not right")
