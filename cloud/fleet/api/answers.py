"""Answers that more than one route gives."""

from http import HTTPStatus

from aiohttp import web

from cloud.api.routes import document
from cloud.fleet.documents import Device, Group
from cloud.rollouts.documents import RolloutView


def revised(
    found: Device | Group | RolloutView, status: HTTPStatus = HTTPStatus.OK
) -> web.Response:
    """With its revision as the ETag: what `If-Match` takes."""
    response = document(found, status)
    response.headers["ETag"] = f'"{found.revision}"'
    return response


def done() -> web.Response:
    return web.Response(status=HTTPStatus.NO_CONTENT)
