"""Enrolment tokens and certificates as rows."""

from typing import Final

from sqlalchemy import Connection, delete, func, insert, select

from cloud.fleet.documents import Certificate, EnrolmentToken
from cloud.fleet.store import schema as s

_T: Final = s.tokens.c
_C: Final = s.certificates.c


def tokens(connection: Connection) -> list[EnrolmentToken]:
    """The oldest first."""
    found = [
        EnrolmentToken.model_validate_json(text)
        for text in connection.execute(select(_T.document)).scalars()
    ]
    return sorted(found, key=lambda one: (one.made_at, one.id))


def token(connection: Connection, token_id: str) -> tuple[EnrolmentToken, str] | None:
    """With the SHA-256 of its secret."""
    query = select(_T.document, _T.secret_sha256).where(_T.id == token_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    return EnrolmentToken.model_validate_json(row.document), row.secret_sha256


def tokens_count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(s.tokens)).scalar_one())


def add_token(connection: Connection, token: EnrolmentToken, secret_sha256: str) -> None:
    connection.execute(insert(s.tokens).values(
        id=token.id, secret_sha256=secret_sha256, expires_at=token.expires_at,
        document=token.model_dump_json(),
    ))  # fmt: skip


def keep_token(connection: Connection, token: EnrolmentToken) -> None:
    connection.execute(
        s.tokens.update().where(_T.id == token.id).values(document=token.model_dump_json())
    )


def remove_token(connection: Connection, token_id: str) -> bool:
    """False: it was not there."""
    return bool(connection.execute(delete(s.tokens).where(_T.id == token_id)).rowcount)


def forget_tokens(connection: Connection, ended_before: float) -> None:
    connection.execute(delete(s.tokens).where(_T.expires_at < ended_before))


def certificate(connection: Connection, serial: str) -> tuple[str, Certificate] | None:
    """With the device that it was issued for."""
    query = select(_C.device, _C.document).where(_C.serial == serial)
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.device, Certificate.model_validate_json(row.document))


def certificates_count(connection: Connection, device: str, now: float) -> int:
    """Those that are good for something: revoked and expired ones are kept, and hold up nobody."""
    good = (_C.device == device) & ~_C.revoked & (_C.not_after > now)
    query = select(func.count()).select_from(s.certificates).where(good)
    return int(connection.execute(query).scalar_one())


def add_certificate(connection: Connection, device: str, certificate: Certificate) -> None:
    connection.execute(insert(s.certificates).values(
        serial=certificate.serial, device=device, not_after=certificate.not_after,
        revoked=certificate.revoked_at is not None, document=certificate.model_dump_json(),
    ))  # fmt: skip


def forget_certificates(connection: Connection, ended_before: float) -> None:
    connection.execute(delete(s.certificates).where(_C.not_after < ended_before))


def revoke_certificates(connection: Connection, device: str, why: str, now: float) -> int:
    """All of the device; how many."""
    query = select(_C.serial, _C.document).where(_C.device == device, ~_C.revoked)
    rows = connection.execute(query).all()
    for row in rows:
        revoked = Certificate.model_validate_json(row.document).model_copy(
            update={"revoked_at": now, "why_revoked": why}
        )
        connection.execute(
            s.certificates.update()
            .where(_C.serial == row.serial)
            .values(revoked=True, document=revoked.model_dump_json())
        )
    return len(rows)


def revoked_serials(connection: Connection) -> dict[str, float]:
    """When each was revoked."""
    query = select(_C.serial, _C.document).where(_C.revoked).order_by(_C.serial)
    return {
        row.serial: Certificate.model_validate_json(row.document).revoked_at or 0.0
        for row in connection.execute(query)
    }
