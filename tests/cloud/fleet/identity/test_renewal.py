"""Who gets a new certificate for the one that it shows, and what an old one is still good for."""

import pytest

from cloud.fleet.identity.peers import PeerCertificate
from cloud.fleet.identity.renewal import check_renewal, renew_after
from shared.errors import Forbidden, NotTrusted
from shared.ids import device_id

NOW = 1_800_000_000.0
DAY_S = 86_400.0


def shown(ends_in_days: float = 30.0) -> PeerCertificate:
    end = NOW + ends_in_days * DAY_S
    return PeerCertificate(device_id("cam-1"), "ab12", end - 90 * DAY_S, end)


def renews(one: PeerCertificate, now: float = NOW, **more) -> str:
    told = {"grace_days": 365.0, "revoked": frozenset[str](), "is_enrolled": True} | more
    return check_renewal(one, now, **told)


def test_it_is_time_from_two_thirds_of_a_life_on() -> None:
    assert renew_after(NOW, NOW + 90 * DAY_S) == NOW + 60 * DAY_S


@pytest.mark.parametrize("ends_in_days", [89.0, 30.0, 0.0, -1.0, -364.0, -365.0])
def test_a_present_or_lately_expired_certificate_is_renewed(ends_in_days: float) -> None:
    assert renews(shown(ends_in_days)) == "cam-1"


def test_one_that_expired_too_long_ago_is_not() -> None:
    with pytest.raises(NotTrusted, match="expired 366 days ago"):
        renews(shown(-366))
    with pytest.raises(NotTrusted):
        renews(shown(-0.1), grace_days=0)


def test_a_revoked_certificate_is_not_renewed() -> None:
    for one in (shown(), shown(-1)):
        with pytest.raises(Forbidden, match="revoked"):
            renews(one, revoked={"ab12"})
    assert renews(shown(), revoked={"ab13"}) == "cam-1"


def test_a_device_that_is_gone_is_not_renewed() -> None:
    with pytest.raises(Forbidden, match="enrol it again"):
        renews(shown(), is_enrolled=False)
