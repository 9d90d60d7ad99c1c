"""Enrolment tokens and certificates: who may be in the fleet."""

import secrets

from sqlalchemy import Connection

from cloud.fleet.bounds import checked_actor, checked_labels, shown, utc_text
from cloud.fleet.documents import Certificate, EnrolmentToken
from cloud.fleet.identity.enrolment import Presented, admit, new_token
from cloud.fleet.part import Part, device_row, grouping_of, in_words
from cloud.fleet.selector import Facts
from cloud.fleet.store import device_rows, identity_rows
from cloud.fleet.store import schema as s
from cloud.fleet.store.event_rows import Line
from shared.errors import Conflict, Malformed, Overloaded, Unknown


class Credentials(Part):
    """Each call is one transaction with its line in the log.

    Raises `Unknown`, `Malformed`, `Conflict`, `Overloaded`, `Unavailable`.
    """

    def make_token(
        self, actor: str, now: float, ttl_s: float, device: str | None = None,
        labels: dict[str, str] | None = None,
    ) -> tuple[EnrolmentToken, str]:  # fmt: skip
        """With its text `het_<id>_<secret>`, which is nowhere kept. One made for a device by name
        lets it in again when it was revoked.
        """
        checked_actor(actor)
        token = new_token(
            made_by=actor, now=now, ttl_s=ttl_s, random_bytes=secrets.token_bytes, device=device,
            labels=labels,
        )  # fmt: skip

        self.add_token(token.document, token.secret_sha256)
        return token.document, token.text

    def add_token(self, token: EnrolmentToken, secret_sha256: str) -> None:
        """One that `cloud.fleet.identity.enrolment.new_token` made."""
        checked_actor(token.made_by)
        labels = checked_labels(token.labels, self._settings.labels_max)
        ttl_s = token.expires_at - token.made_at
        if ttl_s > self._settings.token_ttl_s_max:
            raise Malformed(
                f"ttl_s: {ttl_s:g} s; a token lives {self._settings.token_ttl_s_max:g} s at most"
            )

        def change(connection: Connection) -> None:
            identity_rows.forget_tokens(connection, token.made_at)
            if identity_rows.tokens_count(connection) >= self._settings.tokens_max:
                raise Overloaded(
                    f"there are {self._settings.tokens_max} tokens; remove some, or wait for the "
                    "end of their time"
                )
            identity_rows.add_token(connection, token, secret_sha256)
            words = f"{token.id}, labels {in_words(labels)}"
            self.log(
                connection, token.made_at, Line("token_made", token.made_by, words, token.device)
            )

        self._database.write(change)

    def revoke_token(self, token_id: str, actor: str, now: float) -> None:
        """It enrols nobody any more."""
        checked_actor(actor)

        def change(connection: Connection) -> None:
            plain = token_id.isascii() and token_id.isalnum()
            if not (plain and identity_rows.remove_token(connection, token_id)):
                raise Unknown(f"there is no token {shown(token_id)}")
            self.log(connection, now, Line("token_revoked", actor, token_id))

        self._database.write(change)

    def use_token(
        self, token_id: str, secret: str, device: str, now: float,
        certificate: Certificate | None = None,
    ) -> EnrolmentToken:  # fmt: skip
        """Enrol a device, with its first certificate in the same transaction. Of two that race with
        one token, one wins. Raises as `admit`, and `Conflict` where the name is another's.
        """

        def change(connection: Connection) -> EnrolmentToken:
            plain = token_id.isascii() and token_id.isalnum()
            found = identity_rows.token(connection, token_id) if plain else None
            token, secret_sha256 = found if found is not None else (None, "0" * 64)
            name = admit(Presented(token_id, secret), token, secret_sha256, device, now)
            assert token is not None  # or it was refused
            self._enrol(connection, name, token, now)
            used = token.model_copy(update={"used_at": now, "used_for": name})
            identity_rows.keep_token(connection, used)
            self.log(connection, now, Line("enrolled", "device", f"with token {token.id}", name))
            if certificate is not None:
                self._add(connection, name, certificate, now)
            return used

        return self._database.write(change)

    def add_certificate(self, device: str, certificate: Certificate, now: float) -> None:
        """One more of a device that is enrolled; those before stay valid until their end."""

        def change(connection: Connection) -> None:
            row = device_row(connection, device)
            if row.revoked_at is not None:
                raise Conflict(f"device {device} is revoked; enrol it with a token made for it")
            self._add(connection, device, certificate, now)

        self._database.write(change)

    def _enrol(
        self, connection: Connection, device: str, token: EnrolmentToken, now: float
    ) -> None:
        row = device_rows.row_of(connection, device)
        if row is None:
            if device_rows.count(connection) >= self._settings.devices_max:
                raise Overloaded(f"there are {self._settings.devices_max} devices; remove some")
            labels = dict(sorted(token.labels.items()))
            group = grouping_of(connection).group_of(Facts(device, labels))
            device_rows.add(connection, [(device, labels, group)])
        elif token.device is None and (row.enrolled_at or row.revoked_at) is not None:
            # or anybody with a token for newcomers took another device's place
            raise Conflict(
                f"device {device} is enrolled already; a token made for it by name enrols it anew"
            )
        elif row.revoked_at is not None:
            identity_rows.revoke_certificates(connection, device, "enrolled anew", now)
        connection.execute(
            s.devices.update()
            .where(s.devices.c.id == device)
            .values(
                enrolled_at=now, revoked_at=None, revision=s.devices.c.revision + 1, unsettled=True,
                # its disk may be new: what it reports counts from the beginning
                model_sequence=-1, profile_sequence=-1, inventory_sequence=-1,
            )
        )  # fmt: skip

    def _add(
        self, connection: Connection, device: str, certificate: Certificate, now: float
    ) -> None:
        identity_rows.forget_certificates(connection, now - self._settings.certificates_kept_s)
        if identity_rows.certificate(connection, certificate.serial) is not None:
            raise Conflict(f"certificate {certificate.serial} was issued before")
        count = identity_rows.certificates_count(connection, device, now)
        if count >= self._settings.certificates_max:
            raise Overloaded(
                f"device {device} has {count} certificates; it renews too often: revoke it and "
                "enrol it anew when that is mended"
            )
        identity_rows.add_certificate(connection, device, certificate)
        words = f"{certificate.serial}, until {utc_text(certificate.not_after)}"
        self.log(connection, now, Line("certificate", "device", words, device))
