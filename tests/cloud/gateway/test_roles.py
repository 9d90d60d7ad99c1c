import pytest

from cloud.gateway.roles import GRANTS, Role, granted


def test_every_role_has_its_row():
    assert set(GRANTS) == set(Role)
    for role, grant in GRANTS.items():
        assert role in grant.includes


@pytest.mark.parametrize(
    ("has", "may"),
    [
        ({Role.INFER}, {Role.INFER}),
        ({Role.JOBS}, {Role.JOBS, Role.INFER}),
        ({Role.OBSERVE}, {Role.OBSERVE}),
        ({Role.OPERATE}, {Role.OPERATE, Role.OBSERVE}),
        ({Role.INFER, Role.OBSERVE}, {Role.INFER, Role.OBSERVE}),
        (set(), set()),
    ],
)
def test_a_role_comes_with_what_it_includes_and_nothing_else(has, may):
    assert granted(has) == may


def test_what_is_granted_includes_all_that_it_includes():
    for role in Role:
        assert granted(granted({role})) == granted({role})
