import pytest

from cloud.gateway.roles import GRANTS, Role, granted


def test_every_role_has_its_row():
    assert set(GRANTS) == set(Role)
    for role, grant in GRANTS.items():
        assert role in grant.includes


@pytest.mark.parametrize(
    ("has", "may"),
    [
        ({Role.READ}, {Role.READ}),
        ({Role.INFER}, {Role.INFER, Role.READ}),
        ({Role.JOBS}, {Role.JOBS, Role.INFER, Role.READ}),
        ({Role.OBSERVE}, {Role.OBSERVE, Role.READ}),
        ({Role.OPERATE}, {Role.OPERATE, Role.OBSERVE, Role.READ}),
        ({Role.INFER, Role.OBSERVE}, {Role.INFER, Role.OBSERVE, Role.READ}),
        (set(), set()),
    ],
)
def test_a_role_comes_with_what_it_includes_and_nothing_else(has, may):
    assert granted(has) == may


def test_what_is_granted_includes_all_that_it_includes():
    for role in Role:
        assert granted(granted({role})) == granted({role})
