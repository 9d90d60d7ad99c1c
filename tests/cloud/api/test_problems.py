import importlib
import json
import pkgutil
import re
from http import HTTPStatus

import pytest

import cloud
from cloud.api.problems import TABLE, http_problem, problem_of
from cloud.capacity.manifests import query
from cloud.gateway.refusals import RateLimited, Reason, Untrusted
from cloud.serving.pool import Loading
from shared import errors


def test_every_error_of_the_tree_has_its_row() -> None:
    kinds = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.HybridgeError)
    }
    assert kinds - {errors.HybridgeError} <= set(TABLE)


def test_every_error_of_the_cloud_has_its_place() -> None:
    for module in pkgutil.walk_packages(cloud.__path__, "cloud."):
        if module.name.endswith(("__main__", ".migrations.env")):  # alembic's, run by it alone
            continue
        if not module.name.startswith("cloud.training"):
            importlib.import_module(module.name)
    seen, waiting = set[type[errors.HybridgeError]](), [errors.HybridgeError]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind not in seen:
                seen.add(kind)
                waiting.append(kind)
    assert len(seen) > len(TABLE)
    for kind in seen:
        assert problem_of(
            kind.__new__(kind)
        ).status < HTTPStatus.INTERNAL_SERVER_ERROR or issubclass(kind, errors.Unavailable)


def test_the_statuses_that_clients_know() -> None:
    limited = RateLimited("rate", "slow down", 2.2)
    for error, status, retry in (
        (Untrusted(Reason.NO_CREDENTIALS, "who?"), 401, None),
        (errors.Forbidden("no"), 403, None),
        (errors.Unknown("no such model"), 404, None),
        (errors.TooLarge("big"), 413, None),
        (errors.Malformed("bad"), 400, None),
        (limited, 429, "3"),
        (errors.Overloaded("full"), 429, "1"),
        (errors.DeadlineMissed("late"), 504, None),
        (errors.Unavailable("later"), 503, None),
        (Loading("soon", 0.01), 503, "1"),
    ):
        problem = problem_of(error)
        assert (problem.status, problem.headers.get("Retry-After")) == (status, retry), error
    assert problem_of(Untrusted(Reason.NO_CREDENTIALS, "who?")).headers["WWW-Authenticate"].startswith("Bearer ")  # fmt: skip


def test_a_document_has_all_members_and_ours() -> None:
    assert json.loads(problem_of(RateLimited("rate", "slow down", 2.2)).body("r-1")) == {
        "type": "urn:hybridge:problem:rate-limited", "title": "Too Many Requests", "status": 429,
        "detail": "slow down", "error": "slow down", "instance": "r-1", "retry_after_s": 2.2,
    }  # fmt: skip


def test_what_an_autoscaler_counts_leaves_out_callers_over_their_own_limit() -> None:
    (counted,) = re.findall(r'hybridge_http_problems_total\{kind=~"([^"]*)"', query("x"))
    for error, counts in (
        (errors.Overloaded("full"), True),
        (errors.DeadlineMissed("late"), True),
        (RateLimited("rate", "slow down", 2.2), False),
    ):
        assert (re.fullmatch(counted, problem_of(error).kind) is not None) == counts, error


def test_a_bug_says_nothing_of_itself() -> None:
    body = problem_of(ZeroDivisionError("secret")).body("r-1")
    assert b"secret" not in body
    assert json.loads(body)["status"] == 500


def test_connections_close_where_a_body_was_left_unread() -> None:
    assert problem_of(errors.TooLarge("big")).closes
    assert not problem_of(errors.Malformed("bad")).closes
    assert http_problem(HTTPStatus.METHOD_NOT_ALLOWED, "no").kind == "method-not-allowed"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("/srv/hy-1/state/artifacts: No space left", ".../artifacts: No space left"),
        ("s3://models-of-acme/eu/artifacts: timed out", ".../artifacts: timed out"),
        ("(/var/lib/x y): gone", "(.../x y): gone"),
        ("ask https://home.example/v1/log for it", "ask https://home.example/v1/log for it"),
        ("100/second are taken, 3/4 of it", "100/second are taken, 3/4 of it"),
        ("/openapi.json says what there is", "/openapi.json says what there is"),
    ],
)
def test_callers_do_not_learn_where_a_store_lies(said: str, shown: str) -> None:
    for kind in (errors.Unavailable, errors.Overloaded):
        problem = problem_of(kind(said))
        assert problem.for_callers.detail == shown
        assert problem.detail == said  # as the log has it
    assert problem_of(errors.Conflict(said)).for_callers.detail == said
