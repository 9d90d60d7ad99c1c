from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.gateway.attempts import Attempts


def attempts(**more) -> Attempts:
    return Attempts(**{"burst": 3, "per_s": 0.5, "per_s_total": 1000, "addresses_max": 10, **more})


def test_a_few_failures_are_borne_and_then_one_every_two_seconds():
    found = attempts()
    for _ in range(3):
        assert found.blocked_s("192.0.2.1", 0.0) == 0
        found.failed("192.0.2.1", 0.0)
    assert found.blocked_s("192.0.2.1", 0.0) == 2.0
    assert found.blocked_s("192.0.2.1", 1.0) == 1.0
    assert found.blocked_s("192.0.2.1", 2.0) == 0
    assert found.blocked_s("192.0.2.2", 0.0) == 0


def test_an_ipv6_subscriber_is_one_and_a_mapped_address_is_itself():
    found = attempts(burst=1)
    found.failed("2001:db8:1:2::1", 0.0)
    assert found.blocked_s("2001:db8:1:2:ffff::9", 0.0)
    assert not found.blocked_s("2001:db8:1:3::1", 0.0)
    found.failed("::ffff:192.0.2.1", 0.0)
    assert found.blocked_s("192.0.2.1", 0.0)
    found.failed("fe80::1%eth0", 0.0)
    assert found.blocked_s("fe80::2", 0.0)


def test_those_without_an_address_are_one():
    found = attempts(burst=1)
    found.failed(None, 0.0)
    assert found.blocked_s(None, 0.0)
    assert not found.blocked_s("192.0.2.1", 0.0)


def test_many_addresses_together_are_bounded():
    found = attempts(per_s_total=5)
    for n in range(5):
        found.failed(f"192.0.2.{n}", 0.0)
    assert found.blocked_s("198.51.100.1", 0.0) > 0
    assert found.blocked_s("198.51.100.1", 1.0) == 0


@settings(deadline=None)
@given(st.lists(st.text(max_size=200), max_size=100))
def test_the_table_is_bounded_whatever_the_addresses(addresses):
    found = attempts()
    for n, address in enumerate(addresses):
        found.failed(address, float(n))
        assert len(found) <= 10
    if addresses:
        found.failed(addresses[-1], 0.0)  # a clock that steps back harms nothing
        assert found.blocked_s(addresses[-1], 0.0) >= 0


def test_the_address_that_failed_last_is_remembered():
    found = attempts(burst=1, addresses_max=2)
    for address in ("a", "b", "a", "c"):
        found.failed(address, 0.0)
    assert found.blocked_s("a", 0.0)
    assert not found.blocked_s("b", 0.0)
