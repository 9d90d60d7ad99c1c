import typing
from dataclasses import replace

import pytest

from cloud.gateway.roles import Role, granted
from cloud.registry.catalog import commands as k
from cloud.registry.catalog.permissions import PERMISSIONS, permitted
from cloud.registry.documents import Gate
from shared.errors import Conflict, Forbidden
from tests.cloud.registry.catalog.world import World, register, trust

SET_MODEL = k.SetModel("m", "ann", Gate(approval="rule"))


def test_every_command_is_in_the_table():
    assert set(PERMISSIONS) == set(typing.get_args(k.Command))


@pytest.mark.parametrize(
    ("role", "may"),
    [
        (Role.VIEWER, set()),
        (Role.FETCH, set()),
        (Role.INFER, set()),
        (Role.TRAINER, {k.SetModel, k.Register, k.AddDataSet, k.QueueEvaluation}),
        (Role.APPROVER, {k.SetModel, k.QueueEvaluation, k.Approve, k.Reject}),
        (Role.OPERATOR, {k.Release, k.Retire, k.Delete, k.PublishTrust, k.Promote}),
    ],
)
def test_who_may_do_what(role, may):
    roles = granted([role])
    assert {command for command, needed in PERMISSIONS.items() if needed & roles} == may


def test_whoever_may_not_is_told_which_role_it_takes():
    with pytest.raises(Forbidden, match="bob may not publish trust: it takes the role operator"):
        permitted(trust(1), granted([Role.TRAINER]), "bob")
    with pytest.raises(Forbidden, match="role of the registry itself"):
        permitted(k.ClaimEvaluation("w", 1.0), frozenset(Role), "bob")


def test_a_permitted_command_is_as_it_was():
    command = register()
    assert permitted(command, granted([Role.TRAINER]), "bob") is command
    change = replace(SET_MODEL, revision=5)
    assert permitted(change, granted([Role.APPROVER]), "eve") is change


def test_a_trainer_makes_a_model_and_changes_none():
    world, roles = World(), granted([Role.TRAINER])
    world.do(permitted(SET_MODEL, roles, "bob"))
    with pytest.raises(Conflict, match="is there already"):
        world.do(permitted(replace(SET_MODEL, gate=Gate(rules="accuracy >= 0")), roles, "bob"))
    with pytest.raises(Forbidden, match="to change one takes the role approver"):
        permitted(replace(SET_MODEL, revision=1), roles, "bob")
