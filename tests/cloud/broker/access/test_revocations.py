"""Certificates that were revoked: the list as it is read, and the gate that goes by it."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cloud.broker.access.files import read_revocations
from cloud.broker.access.gate import Admission, Gate
from cloud.broker.access.identity import Identity
from cloud.broker.access.revocations import CertificateId, Revocations
from cloud.broker.codec.packets import Connect
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.options import parse
from cloud.broker.settings import BrokerSettings
from cloud.fleet.identity.ca import CERTIFICATE, DeviceCa
from shared.errors import Malformed, NotTrusted, Unknown
from tests.cloud.fleet.identity.regions import issued_by

NOW = 1_800_000_000.0
OWNER = ("hybridge-owner", b"0123456789abcdef")


@pytest.fixture(scope="module")
def cas(tmp_path_factory: pytest.TempPathFactory) -> list[DeviceCa]:
    at = tmp_path_factory.mktemp("cas")
    return [DeviceCa.create(at / name, name, NOW) for name in ("lyon", "turin")]


def made(ca: DeviceCa, name: str = "cam-1") -> tuple[str, CertificateId]:
    """A certificate's serial, and what the broker makes of it."""
    issued = issued_by(ca, name, ca.folder / "devices", NOW, 30).issued
    found = CertificateId.of(ssl.PEM_cert_to_DER_cert(issued.pem))
    assert found is not None
    return issued.serial, found


def parsed(text: str, *cas: DeviceCa) -> Revocations:
    return Revocations.parse(text, "crl.pem", "".join(ca.certificate_pem for ca in cas))


def test_a_list_names_certificates_and_its_end(cas: list[DeviceCa]) -> None:
    (gone, gone_id), (_, kept_id) = made(cas[0]), made(cas[0])
    found = parsed(cas[0].crl({gone: NOW}, NOW, 7), cas[0])
    assert not found.allows(gone_id)
    assert found.allows(kept_id)
    assert found.next_update == datetime.fromtimestamp(NOW, UTC) + timedelta(days=7)


def test_a_certificate_that_cannot_be_read_is_not_allowed(cas: list[DeviceCa]) -> None:
    assert CertificateId.of(b"\x30\x03abc") is None
    assert not parsed(cas[0].crl({}, NOW), cas[0]).allows(None)


def test_a_file_may_hold_the_lists_of_several_cas(cas: list[DeviceCa]) -> None:
    (one, one_id), (other, other_id) = made(cas[0]), made(cas[1])
    text = cas[0].crl({one: NOW}, NOW, 7) + "\n" + cas[1].crl({other: NOW}, NOW, 3)
    found = parsed(text, *cas)
    assert not found.allows(one_id)
    assert not found.allows(other_id)
    assert found.next_update == datetime.fromtimestamp(NOW, UTC) + timedelta(days=3)


def test_the_same_serial_of_another_ca_is_another_certificate(cas: list[DeviceCa]) -> None:
    serial, found = made(cas[0])
    listed = parsed(cas[1].crl({serial: NOW}, NOW), *cas)
    assert listed.allows(found)
    assert not listed.allows(CertificateId(made(cas[1])[1].issuer, found.serial))


def test_a_list_that_no_ca_of_ours_signed_is_refused(cas: list[DeviceCa], tmp_path: Path) -> None:
    with pytest.raises(NotTrusted, match="signed by none"):
        parsed(cas[1].crl({}, NOW), cas[0])
    namesake = DeviceCa.create(tmp_path / "ca", "lyon", NOW)
    with pytest.raises(NotTrusted, match="signed by none"):
        parsed(namesake.crl({}, NOW), cas[0])


@pytest.mark.parametrize("text", ["", "x", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----",
                                  "-----BEGIN X509 CRL-----"])  # fmt: skip
def test_what_is_no_list_is_refused(cas: list[DeviceCa], text: str) -> None:
    with pytest.raises(Malformed, match=r"crl\.pem"):
        parsed(text, cas[0])


def test_a_file_that_is_not_there_is_named(cas: list[DeviceCa], tmp_path: Path) -> None:
    with pytest.raises(Unknown, match=r"none\.pem"):
        read_revocations(tmp_path / "none.pem", cas[0].folder / CERTIFICATE)


def gate(listed: Revocations | None) -> Gate:
    return Gate(
        None, None, allow_anonymous=False, owner=OWNER, new_client_id=str,
        trusts_certificates=True, revocations=listed,
    )  # fmt: skip


def test_a_revoked_certificate_does_not_come_in(cas: list[DeviceCa]) -> None:
    (gone, gone_id), (_, kept_id) = made(cas[0]), made(cas[0])
    at = gate(parsed(cas[0].crl({gone: NOW}, NOW), cas[0]))
    for certificate in (gone_id, None):
        with pytest.raises(BrokenRule, match="revoked") as refused:
            at.identify(Connect("cam-1"), "cam-1", certificate)
        assert refused.value.reason is ReasonCode.NOT_AUTHORIZED
    assert isinstance(at.identify(Connect("cam-1"), "cam-1", kept_id), Admission)
    assert isinstance(gate(None).identify(Connect("cam-1"), "cam-1", gone_id), Admission)


def test_who_is_revoked_does_not_stay(cas: list[DeviceCa]) -> None:
    (gone, gone_id), (_, kept_id) = made(cas[0]), made(cas[0])
    before, after = gate(None), gate(parsed(cas[0].crl({gone: NOW}, NOW), cas[0]))
    who = Identity("cam-1", "cam-1")
    assert not after.keeps(who, "cam-1", before, gone_id)
    assert after.keeps(who, "cam-1", before, kept_id)
    assert before.keeps(who, "cam-1", before, gone_id)


def test_the_owner_needs_no_certificate_and_is_never_revoked(cas: list[DeviceCa]) -> None:
    at = gate(parsed(cas[0].crl({}, NOW), cas[0]))
    owner = Connect("x", username=OWNER[0], password=OWNER[1])
    assert isinstance(at.identify(owner, None), Admission)
    assert at.keeps(Identity("x", OWNER[0], is_owner=True), None, at)


def test_a_list_needs_the_ca_that_signed_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tls_crl needs tls_ca"):
        BrokerSettings(tls_crl=tmp_path / "crl.pem")
    assert parse(["--tls-crl", "crl.pem"]).tls_crl == Path("crl.pem")
