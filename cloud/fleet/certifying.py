"""From a token or a present certificate to a new one. Blocking; safe on any thread."""

from pathlib import Path

from cloud.fleet.api.schemas import EnrolAnswer
from cloud.fleet.devices import Fleet
from cloud.fleet.identity.ca import CRL, DeviceCa, IssuedCertificate
from cloud.fleet.identity.enrolment import device_name, presented
from cloud.fleet.identity.peers import PeerCertificate
from cloud.fleet.identity.renewal import check_renewal, renew_after
from cloud.fleet.settings import Identity
from shared.errors import Unknown


class Certifying:
    """`broker`: where devices find theirs, as told to them."""

    def __init__(self, fleet: Fleet, ca: DeviceCa, settings: Identity, broker: str | None) -> None:
        self._fleet, self._ca, self._settings, self._broker = fleet, ca, settings, broker

    def enrol(self, token: str, device: str, csr: str, now: float) -> EnrolAnswer:
        """Uses the token up. Raises `Malformed`, `NotTrusted`, `Forbidden`, `Conflict`."""
        shown, name = presented(token), device_name(device)
        # signed before the token is used: a request that cannot be signed costs nobody a token
        issued = self._ca.issue(csr, name, now, self._settings.days)
        self._fleet.use_token(shown.id, shown.secret, name, now, issued.document())
        return self._answer(issued)

    def renew(self, shown: PeerCertificate, csr: str, now: float) -> EnrolAnswer:
        """The present certificate stays good until its end. Raises `Forbidden`, `NotTrusted`."""
        name = check_renewal(
            shown, now, grace_days=self._settings.grace_days,
            revoked=self._fleet.revoked_serials(), is_enrolled=self._is_enrolled(shown),
        )  # fmt: skip
        issued = self._ca.issue(csr, name, now, self._settings.days)
        self._fleet.add_certificate(name, issued.document(), now)
        return self._answer(issued)

    def crl(self, now: float) -> str:
        """PEM."""
        return self._ca.crl(self._fleet.revoked_serials(), now, self._settings.crl_days)

    @property
    def crl_path(self) -> Path:
        return self._settings.crl or self._ca.folder / CRL

    def _is_enrolled(self, shown: PeerCertificate) -> bool:
        try:
            found = self._fleet.device(shown.device)
        except Unknown:
            return False
        return found.enrolled_at is not None and found.revoked_at is None

    def _answer(self, issued: IssuedCertificate) -> EnrolAnswer:
        return EnrolAnswer(
            certificate=issued.pem, ca=self._ca.servers_pem,
            renew_after=renew_after(issued.not_before, issued.not_after), broker=self._broker,
        )  # fmt: skip
