"""The plan's own idea of the ACL is that of the file it writes."""

from pathlib import Path

import pytest

from cloud.broker.access.acl import Acl
from cloud.broker.access.identity import Identity
from simulations.broker_chaos.plan import PUBLISHERS, READERS, Plan, acl_text, may

TOPICS = ("up/p0/q1", "up/p2/q2", "state/s0", "slow/big", "wills/g", "open/x", "other")


@pytest.mark.parametrize("user", ["reader", "member", "guest", "intruder", "noise", "p0", "s0"])
def test_the_file_says_what_the_checks_expect(user: str) -> None:
    rules = Acl.parse(acl_text(), "acl").rules(Identity("g", user))
    for topic in TOPICS:
        assert rules.may_publish(topic) == may(user, "g", "write", topic), topic
        assert rules.may_subscribe(topic) == may(user, "g", "read", topic), topic


def test_everybody_may_do_what_is_planned() -> None:
    for role in PUBLISHERS:
        assert may(role.client_id, role.client_id, "write", role.topic)
    acl = Acl.parse(acl_text(), "acl")
    for reader in (one for each in READERS.values() for one in each):
        for wanted, _ in reader.filters:
            plain = wanted.removeprefix("$share/g/")
            assert acl.rules(Identity(reader.client_id, reader.user)).may_subscribe(plain)


def test_a_plan_travels_by_file(tmp_path: Path) -> None:
    plan = Plan(1883, str(tmp_path), seed=3, acl=False)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan
