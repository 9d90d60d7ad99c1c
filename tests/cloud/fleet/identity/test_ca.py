"""What the device CA signs, whatever it is asked for, and what it does not."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cloud.fleet.identity.ca import BACKDATED, KEY, SERVERS, DeviceCa
from cloud.fleet.identity.csr import BYTES_MAX, public_key
from edge.identity.key import new_key_and_request
from shared.errors import Conflict, Malformed, NotTrusted, TooLarge, Unknown

NOW = 1_800_000_000.0
DAY_S = 86_400.0
SHA256 = hashes.SHA256()


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> DeviceCa:
    return DeviceCa.create(tmp_path_factory.mktemp("region") / "ca", "lyon", NOW)


def request(key, subject: str = "cam-1", algorithm=SHA256, **extension) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    )
    for value in extension.values():
        builder = builder.add_extension(value, critical=True)
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM)


def issue(ca: DeviceCa, csr: bytes | str, device: str = "cam-1") -> x509.Certificate:
    return x509.load_pem_x509_certificate(ca.issue(csr, device, NOW, 90).pem.encode())


def extension(of: x509.Certificate, kind: type[x509.ExtensionType]):
    return of.extensions.get_extension_for_class(kind).value


def test_a_certificate_names_its_device_and_is_for_clients_alone(ca: DeviceCa) -> None:
    made = issue(ca, new_key_and_request("cam-1")[1])
    assert made.subject.rfc4514_string() == "CN=cam-1"
    assert list(extension(made, x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not extension(made, x509.BasicConstraints).ca
    usage = extension(made, x509.KeyUsage)
    assert usage.digital_signature
    assert not usage.key_cert_sign
    assert not usage.crl_sign
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(ca.certificate_pem.encode()))


def test_what_the_request_asks_for_counts_for_nothing(ca: DeviceCa) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    greedy = request(
        key, "fleet", ca=x509.BasicConstraints(ca=True, path_length=None),
        use=x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        names=x509.SubjectAlternativeName([x509.DNSName("broker.example")]),
    )  # fmt: skip
    made = issue(ca, greedy, "cam-1")
    assert made.subject.rfc4514_string() == "CN=cam-1"
    assert not extension(made, x509.BasicConstraints).ca
    assert list(extension(made, x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    with pytest.raises(x509.ExtensionNotFound):
        extension(made, x509.SubjectAlternativeName)


@pytest.mark.parametrize("name", ["worker", "fleet", "trust", "tuf", "a/b", "", "hybridge-owner"])
def test_names_that_are_no_devices_are_not_signed(ca: DeviceCa, name: str) -> None:
    with pytest.raises(Malformed):
        ca.issue(new_key_and_request("cam-1")[1], name, NOW, 90)


def test_serials_are_random_and_of_one_length(ca: DeviceCa) -> None:
    csr = new_key_and_request("cam-1")[1]
    serials = {ca.issue(csr, "cam-1", NOW, 90).serial for _ in range(20)}
    assert len(serials) == 20
    assert {len(one) for one in serials} == {40}
    assert {int(one, 16).bit_length() for one in serials} == {159}


def test_a_certificate_begins_a_day_ago_for_slow_clocks(ca: DeviceCa) -> None:
    made = ca.issue(new_key_and_request("cam-1")[1], "cam-1", NOW, 90)
    assert made.not_before == NOW - BACKDATED.total_seconds()
    assert made.not_after == NOW + 90 * DAY_S
    assert made.document().serial == made.serial
    short = ca.issue(new_key_and_request("cam-1")[1], "cam-1", NOW, 1)
    assert short.not_before == NOW - 0.1 * DAY_S  # or two thirds of its life were over


def test_no_certificate_outlives_its_ca(ca: DeviceCa) -> None:
    made = issue(ca, new_key_and_request("cam-1")[1])
    late = ca.issue(new_key_and_request("cam-1")[1], "cam-1", NOW + 3600 * DAY_S, 90)
    own = x509.load_pem_x509_certificate(ca.certificate_pem.encode())
    assert late.not_after == own.not_valid_after_utc.timestamp()
    assert made.not_valid_after_utc < own.not_valid_after_utc


@pytest.mark.parametrize("days", [0, -1, 3651, float("nan")])
def test_a_life_that_is_none_is_refused(ca: DeviceCa, days: float) -> None:
    with pytest.raises(Malformed, match="days"):
        ca.issue(new_key_and_request("cam-1")[1], "cam-1", NOW, days)


GOOD = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "RSA 2048": lambda: rsa.generate_private_key(65_537, 2048),
}
BAD = {
    "P-192": lambda: ec.generate_private_key(ec.SECP192R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
    "RSA 1024": lambda: rsa.generate_private_key(65_537, 1024),
    "DSA": lambda: dsa.generate_private_key(2048),
}


@pytest.mark.parametrize("kind", GOOD)
def test_good_keys_are_signed(ca: DeviceCa, kind: str) -> None:
    key = GOOD[kind]()
    assert issue(ca, request(key)).public_key() == key.public_key()


def test_ed25519_is_signed_and_ed448_is_not(ca: DeviceCa) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    assert issue(ca, request(key, algorithm=None)).public_key() == key.public_key()
    with pytest.raises(Malformed, match="not taken"):
        public_key(request(ed448.Ed448PrivateKey.generate(), algorithm=None))


@pytest.mark.parametrize("kind", BAD)
def test_weak_and_odd_keys_are_refused(ca: DeviceCa, kind: str) -> None:
    with pytest.raises(Malformed, match="not taken"):
        ca.issue(request(BAD[kind]()), "cam-1", NOW, 90)


def test_a_request_that_its_key_did_not_sign_is_refused() -> None:
    mine, theirs = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    der = x509.load_pem_x509_csr(request(mine)).public_bytes(serialization.Encoding.DER)
    point = serialization.PublicFormat.UncompressedPoint
    plain = serialization.Encoding.X962
    swapped = der.replace(
        mine.public_key().public_bytes(plain, point), theirs.public_key().public_bytes(plain, point)
    )
    assert swapped != der
    forged = x509.load_der_x509_csr(swapped).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(NotTrusted, match="not by its own key"):
        public_key(forged)


@pytest.mark.parametrize("csr", ["", "x", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"])
def test_what_is_no_request_is_refused(csr: str) -> None:
    with pytest.raises(Malformed, match="no certificate request"):
        public_key(csr)


def test_a_long_request_is_not_parsed() -> None:
    with pytest.raises(TooLarge):
        public_key(new_key_and_request("cam-1")[1] + " " * BYTES_MAX)


def test_the_list_names_what_was_revoked(ca: DeviceCa) -> None:
    one = ca.issue(new_key_and_request("cam-1")[1], "cam-1", NOW, 90)
    found = x509.load_pem_x509_crl(ca.crl({one.serial: NOW}, NOW, 7).encode())
    own = x509.load_pem_x509_certificate(ca.certificate_pem.encode())
    assert found.is_signature_valid(own.public_key())
    assert [f"{entry.serial_number:x}" for entry in found] == [one.serial]
    assert found.next_update_utc == datetime.fromtimestamp(NOW, UTC) + timedelta(days=7)
    later = x509.load_pem_x509_crl(ca.crl({}, NOW + 1).encode())
    number = [f.extensions.get_extension_for_class(x509.CRLNumber).value for f in (found, later)]
    assert number[0].crl_number < number[1].crl_number


def test_the_key_is_its_owners_alone(tmp_path: Path) -> None:
    DeviceCa.create(tmp_path, "lyon", NOW)
    assert stat.S_IMODE((tmp_path / KEY).stat().st_mode) == 0o600
    (tmp_path / KEY).chmod(0o644)
    with pytest.raises(NotTrusted, match="lets others in"):
        DeviceCa.open(tmp_path)


def test_a_ca_is_made_once(tmp_path: Path) -> None:
    made = DeviceCa.create(tmp_path, "lyon", NOW)
    with pytest.raises(Conflict, match="there is a CA already"):
        DeviceCa.create(tmp_path, "lyon", NOW)
    assert DeviceCa.open(tmp_path).certificate_pem == made.certificate_pem


def test_a_key_of_another_ca_is_found_at_the_start(tmp_path: Path) -> None:
    for name in ("one", "two"):
        DeviceCa.create(tmp_path / name, "lyon", NOW)
    (tmp_path / "one" / KEY).write_bytes((tmp_path / "two" / KEY).read_bytes())
    with pytest.raises(Malformed, match="do not belong together"):
        DeviceCa.open(tmp_path / "one")
    (tmp_path / "one" / KEY).write_text("x")
    with pytest.raises(Malformed, match="no PEM"):
        DeviceCa.open(tmp_path / "one")
    with pytest.raises(Unknown):
        DeviceCa.open(tmp_path / "three")


def test_devices_are_told_whom_to_believe_in(tmp_path: Path) -> None:
    ca = DeviceCa.create(tmp_path, "lyon", NOW)
    assert ca.servers_pem == ca.certificate_pem
    (tmp_path / SERVERS).write_text("others")
    assert ca.servers_pem == "others"
