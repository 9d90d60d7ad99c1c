"""Workers and quotas as rows."""

from typing import Final

from sqlalchemy import Connection, delete, func, select

from cloud.store.upsert import upsert
from cloud.training.documents import Quota
from cloud.training.queue.parties import Place
from cloud.training.store import schema as s
from shared.errors import InUse

_W: Final = s.workers.c
_Q: Final = s.quotas.c
_NOBODY: Final = ""
"""The token of a worker that ended in order."""


def seen(
    connection: Connection, name: str, token: str, cpus: int, apart: str, now: float, lease_s: float
) -> None:
    """This worker lives. Raises `InUse` where another one of its name does."""
    query = select(_W.token, _W.seen_at).where(_W.name == name)
    before = connection.execute(query).one_or_none()
    mine = (_NOBODY, token)
    if before is not None and before.token not in mine and now - before.seen_at < lease_s:
        raise InUse(
            f"worker.name {name}: another train-worker of this name was heard of "
            f"{max(0.0, now - before.seen_at):.0f} s ago; end it, wait {lease_s:.0f} s, or set another name"
        )
    upsert(connection, s.workers, [{
        "name": name, "token": token, "cpus": cpus, "seen_at": now, "kept_apart_by": apart[:500],
    }])  # fmt: skip


def gone(connection: Connection, name: str, token: str) -> bool:
    """It ended in order: another of its name may begin at once. When it was seen last stays true. False:
    another one has the name.
    """
    mine = s.workers.update().where(_W.name == name, _W.token == token)
    return bool(connection.execute(mine.values(token=_NOBODY, cpus=0)).rowcount)


def forget_workers(connection: Connection, seen_before: float) -> None:
    connection.execute(delete(s.workers).where(_W.seen_at < seen_before))


def alive(connection: Connection, seen_after: float) -> list[Place]:
    lives = (_W.seen_at > seen_after, _W.token != _NOBODY)
    query = select(_W.name, _W.cpus).where(*lives).order_by(_W.name)
    return [Place(*found) for found in connection.execute(query)]


def workers(connection: Connection) -> list[tuple[str, int, float, str]]:
    """Name, CPUs, when it was seen, what keeps its jobs apart."""
    query = select(_W.name, _W.cpus, _W.seen_at, _W.kept_apart_by).order_by(_W.name)
    return [
        (one.name, one.cpus, one.seen_at, one.kept_apart_by) for one in connection.execute(query)
    ]


def quotas(connection: Connection) -> list[Quota]:
    """In the order of teams."""
    query = select(_Q.document).order_by(_Q.team)
    return [Quota.model_validate_json(text) for text in connection.execute(query).scalars()]


def quota(connection: Connection, team: str) -> Quota | None:
    text = connection.execute(select(_Q.document).where(_Q.team == team)).scalar()
    return None if text is None else Quota.model_validate_json(text)


def quotas_count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(s.quotas)).scalar_one())


def put_quota(connection: Connection, given: Quota) -> None:
    upsert(connection, s.quotas, [{"team": given.team, "document": given.model_dump_json()}])


def remove_quota(connection: Connection, team: str) -> bool:
    """False: it was not there."""
    return bool(connection.execute(delete(s.quotas).where(_Q.team == team)).rowcount)
