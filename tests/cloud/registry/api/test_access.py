"""Who may do what: every route with every role, against the tables."""

import re
from collections.abc import Iterator

import pytest

from cloud.gateway.roles import GRANTS, Role
from cloud.registry.catalog import commands as k
from cloud.registry.catalog.permissions import PERMISSIONS
from tests.cloud.registry.servers import ROLES, RegistryProcess

VIEW, FETCH, ANYBODY = frozenset({Role.VIEWER}), frozenset({Role.FETCH}), frozenset[Role]()
TRAIN, OPERATE = frozenset({Role.TRAINER}), frozenset({Role.OPERATOR})
V = "/v1/models/{model}/versions/{version}"
ROUTES: dict[tuple[str, str], frozenset[Role]] = {
    ("GET", "/healthz"): ANYBODY,
    ("GET", "/openapi.json"): ANYBODY,
    ("GET", "/metrics"): VIEW,
    ("GET", "/v1/registry"): VIEW,
    ("GET", "/v1/models"): VIEW,
    ("GET", "/v1/models/{model}"): VIEW,
    ("PUT", "/v1/models/{model}"): PERMISSIONS[k.SetModel],
    ("GET", "/v1/models/{model}/history"): VIEW,
    ("GET", "/v1/models/{model}/versions"): VIEW,
    ("GET", V): VIEW,
    ("PUT", V): PERMISSIONS[k.Register],
    ("DELETE", V): PERMISSIONS[k.Delete],
    ("POST", V + "/evaluate"): PERMISSIONS[k.QueueEvaluation],
    ("POST", V + "/approve"): PERMISSIONS[k.Approve],
    ("POST", V + "/reject"): PERMISSIONS[k.Reject],
    ("POST", V + "/release"): PERMISSIONS[k.Release],
    ("POST", V + "/retire"): PERMISSIONS[k.Retire],
    ("GET", V + "/checklist"): VIEW,
    ("GET", V + "/evaluations"): VIEW,
    ("GET", "/v1/evaluations/{id}"): VIEW,
    ("GET", "/v1/evaluations/{id}/report.json"): VIEW,
    ("GET", "/v1/evaluations/{id}/report.html"): VIEW,
    ("GET", "/v1/data-sets"): VIEW,
    ("GET", "/v1/data-sets/{data_set}"): VIEW,
    ("GET", "/v1/data-sets/{data_set}/{number}"): VIEW,
    ("PUT", "/v1/data-sets/{data_set}/{number}"): PERMISSIONS[k.AddDataSet],
    ("GET", "/v1/artifacts/{sha256}"): FETCH,
    ("GET", "/v1/artifacts/{sha256}/deltas"): FETCH,
    ("POST", "/v1/artifacts/missing"): TRAIN,
    ("HEAD", "/v1/uploads/{sha256}"): TRAIN,
    ("PATCH", "/v1/uploads/{sha256}"): PERMISSIONS[k.Register],
    ("GET", "/tuf/{file}"): FETCH,
    ("GET", "/v1/trust"): VIEW,
    ("POST", "/v1/trust/{role}"): PERMISSIONS[k.PublishTrust],
    ("GET", "/v1/trust/{role}/staged"): VIEW,
    ("DELETE", "/v1/trust/{role}/staged"): PERMISSIONS[k.PublishTrust],
    ("GET", "/v1/log"): VIEW,
    ("GET", "/v1/runners"): VIEW,
    ("PUT", "/v1/runners/{runner}"): FETCH,
    ("GET", "/v1/replicas"): VIEW,
    ("PUT", "/v1/replicas/{replica}"): VIEW,
    ("POST", "/v1/gc"): OPERATE,
}
"""One of the roles, or one that includes it, is enough."""
NAMES = {
    "model": "nobody", "version": "1.0.0", "id": "0" * 36, "data_set": "nothing", "number": "1",
    "sha256": "0" * 64, "file": "9.root.json", "role": "targets", "runner": "d", "replica": "r",
}  # fmt: skip


def path_of(route: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: NAMES[found[1]], route)


def described(registry: RegistryProcess) -> Iterator[tuple[str, str]]:
    for path, methods in registry.get("/openapi.json", None).json["paths"].items():
        for method in methods:
            yield method.upper(), path


def test_the_table_has_every_route(running: RegistryProcess) -> None:
    assert set(described(running)) == set(ROUTES)


@pytest.mark.parametrize(("method", "route"), ROUTES, ids=map(" ".join, ROUTES))
def test_each_role_may_do_what_the_table_says(
    running: RegistryProcess, method: str, route: str
) -> None:
    wanted = ROUTES[method, route]
    for role in ROLES:
        status = running.call(method, path_of(route), None, role).status
        may = not wanted or bool(wanted & GRANTS[role].includes)
        assert (status != 403) == may, (role, status)
        assert status < 500
    status = running.call(method, path_of(route), None, None).status
    assert (status == 401) == bool(wanted)


def test_a_trainer_makes_a_model_and_changes_none(running: RegistryProcess, model: str) -> None:
    path = f"/v1/models/{model}"
    easy = {"gate": {"rules": "accuracy >= 0"}}
    assert running.call("PUT", path, {"owner": "v"}, Role.TRAINER).status == 200
    refused = running.call("PUT", path, easy, Role.TRAINER)
    assert refused.status in (403, 409)
    assert running.call("PUT", path, easy, Role.TRAINER, If_Match='"1"').status == 403
    assert running.call("PUT", path, easy, Role.APPROVER).status == 200


def test_nobody_gives_the_registrys_own_commands(running: RegistryProcess) -> None:
    """No route leads to them: their permissions name no role."""
    assert {command for command, roles in PERMISSIONS.items() if not roles} >= {
        k.ClaimEvaluation, k.EndEvaluation, k.AddDelta,
    }  # fmt: skip


def test_what_changes_carries_the_callers_name(running: RegistryProcess, model: str) -> None:
    running.call("PUT", f"/v1/models/{model}", {"owner": "v"}, Role.TRAINER)
    (entry,) = running.get(f"/v1/models/{model}/history").json["entries"]
    assert entry["actor"] == "a-trainer"
