"""The broker's list of revoked certificates, and its rules for those who had one."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from cryptography import x509

from cloud.fleet.certifying import Certifying
from cloud.fleet.device_settings import DeviceSettings
from cloud.fleet.devices import Fleet
from cloud.fleet.heard import PresenceChange
from cloud.fleet.identity.ca import CRL, DeviceCa
from cloud.fleet.identity.peers import PeerCertificate
from cloud.fleet.revoking import Revoking
from cloud.fleet.settings import Identity
from cloud.fleet.store.database import FleetDatabase
from edge.identity.key import new_key_and_request
from shared.errors import Forbidden
from shared.ids import device_id

NOW = time.time()


class Office:
    def __init__(self, folder: Path, **more: object) -> None:
        self.database = FleetDatabase(f"sqlite:///{folder / 'fleet.db'}")
        self.database.open()
        self.fleet = Fleet(self.database, DeviceSettings())
        self.ca = DeviceCa.create(folder / "ca", "lyon", NOW)
        settings = Identity.model_validate({"ca": folder / "ca"} | more)
        self.certifying = Certifying(self.fleet, self.ca, settings, "mqtts://b")
        self.revoking = Revoking(self.certifying, self.fleet, settings, lambda: NOW)

    def enrol(self, device: str) -> int:
        _, token = self.fleet.make_token("op", NOW, 3600.0)
        _, request = new_key_and_request(device)
        answer = self.certifying.enrol(token, device, request, NOW)
        assert answer.broker == "mqtts://b"
        assert NOW < answer.renew_after < NOW + 90 * 86_400
        return x509.load_pem_x509_certificate(answer.certificate.encode()).serial_number


@pytest.fixture
def office(tmp_path: Path):
    made = Office(tmp_path, acl=tmp_path / "acl.conf", broker_pid_file=tmp_path / "no.pid")
    yield made
    made.database.close()


def test_revoked_and_removed_devices_are_listed_and_shut_out(
    office: Office, tmp_path: Path
) -> None:
    serials = {name: office.enrol(name) for name in ("a", "b", "c")}
    office.fleet.revoke("a", "stolen", "op", NOW)
    office.fleet.remove("b", "op", NOW)
    office.revoking.write()
    listed = x509.load_pem_x509_crl((tmp_path / "ca" / CRL).read_bytes())
    assert {one.serial_number for one in listed} == {serials["a"], serials["b"]}
    rules = (tmp_path / "acl.conf").read_text()
    assert "user a\ntopic deny #" in rules
    assert "user b\ntopic deny #" in rules
    assert "user c\n" not in rules


def test_a_process_that_has_a_dead_brokers_number_is_left_alone(
    office: Office, tmp_path: Path
) -> None:
    """SIGHUP would end it; a broker that was killed leaves its file behind."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (tmp_path / "no.pid").write_text(f"{other.pid}\n")
        office.revoking.write()
        other.communicate(b"\n", timeout=30)
    assert other.returncode == 0


def test_one_that_is_enrolled_anew_is_let_in_again(office: Office, tmp_path: Path) -> None:
    office.enrol("a")
    office.fleet.revoke("a", "stolen", "op", NOW)
    _, token = office.fleet.make_token("op", NOW, 3600.0, device="a")
    office.certifying.enrol(token, "a", new_key_and_request("a")[1], NOW)
    office.revoking.write()
    assert "user a\n" not in (tmp_path / "acl.conf").read_text()


def renewed(office: Office, device: str, serial: str = "abc") -> None:
    shown = PeerCertificate(device_id(device), serial, NOW - 10, NOW + 1000)
    office.certifying.renew(shown, new_key_and_request(device)[1], NOW)


def test_a_certificate_of_a_device_that_is_not_enrolled_any_more_renews_nothing(
    office: Office,
) -> None:
    serial = office.enrol("a")
    office.fleet.remove("a", "op", NOW)
    with pytest.raises(Forbidden):
        renewed(office, "a", f"{serial:x}")


def test_nor_does_one_of_a_device_that_a_store_from_before_does_not_know(office: Office) -> None:
    with pytest.raises(Forbidden):
        renewed(office, "a")


def test_nor_one_of_a_device_that_came_by_itself(office: Office) -> None:
    by_itself = Fleet(office.database, DeviceSettings(needs_enrolment=False))
    by_itself.record([("a", PresenceChange(online=True))], NOW)
    with pytest.raises(Forbidden):
        renewed(office, "a")
