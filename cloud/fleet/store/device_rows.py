"""Devices as rows: facts for selectors, states for hearing, documents for the API."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, func, insert, or_, select

from cloud.fleet.documents import Certificate, Device, Presence, Quarantine
from cloud.fleet.heard import CLOCK_AHEAD_S, FLAPS, DeviceState, LastReport
from cloud.fleet.presence import PresenceState, flaps
from cloud.fleet.selector import Facts
from cloud.fleet.store import schema as s
from cloud.fleet.store.desired_rows import desired_of
from cloud.store.upsert import chunks, update
from shared.fleet.desired import DesiredModel, DesiredProfile
from shared.fleet.reported import ReportedInventory, ReportedModel, ReportedProfile

_D: Final = s.devices.c
_FACTS: Final = (
    _D.id, _D.labels, _D.group_name, _D.arch, _D.engines, _D.model, _D.version, _D.online,
)  # fmt: skip
_STATE: Final = (
    _D.id, _D.last_seen, _D.revoked_at, _D.quarantined_at, _D.quarantined_until, _D.quarantine_why,
    _D.online, _D.online_since, _D.changes, _D.strikes, _D.struck_at, _D.arch, _D.engines,
    _D.model, _D.version, _D.model_sequence, _D.model_at, _D.model_generation,
    _D.profile_sequence, _D.profile_at, _D.profile_generation, _D.inventory_sequence,
    _D.inventory_at, _D.unsettled,
)  # fmt: skip


@lru_cache(maxsize=10_000)
def labels_of(text: str) -> Mapping[str, str]:
    """Not to be changed: devices with the same labels share it."""
    found: dict[str, str] = json.loads(text)
    return found


@lru_cache(maxsize=1_000)
def _engines_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


def facts(
    connection: Connection, group: str | None = None, after: str = "", limit: int | None = None
) -> Iterator[tuple[Facts, str]]:
    """With the group of each, in the order of ids; None: of every group, all."""
    query = select(*_FACTS).where(_D.id > after).order_by(_D.id).limit(limit)
    if group is not None:
        query = query.where(_D.group_name == group)
    # unpacked, not by name: twice as quick, and 100,000 of them are asked for at once
    for device, labels, group_name, arch, engines, model, version, online in connection.execute(
        query
    ):
        yield (
            Facts(device, labels_of(labels), arch, _engines_of(engines), model, version, online),
            group_name,
        )


def facts_of(row: Row[*tuple[Any, ...]]) -> Facts:
    return Facts(
        row.id, labels_of(row.labels), row.arch, _engines_of(row.engines), row.model, row.version,
        row.online,
    )  # fmt: skip


def count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(s.devices)).scalar_one())


def online_count(connection: Connection) -> int:
    query = select(func.count()).select_from(s.devices).where(_D.online)
    return int(connection.execute(query).scalar_one())


def row_of(connection: Connection, device: str) -> Row[*tuple[Any, ...]] | None:
    return connection.execute(select(s.devices).where(_D.id == device)).one_or_none()


def add(connection: Connection, devices: Sequence[tuple[str, Mapping[str, str], str]]) -> None:
    """Some of which nothing is known yet: the id, labels and group of each."""
    unknown = _state_values(DeviceState(unsettled=True))
    rows = [
        {"id": device, "labels": labels_text(labels), "group_name": group, "revision": 0, **unknown}
        for device, labels, group in devices
    ]
    if rows:
        connection.execute(insert(s.devices), rows)


def labels_text(labels: Mapping[str, str]) -> str:
    """As it is stored."""
    return json.dumps(dict(labels), separators=(",", ":"))


def states(connection: Connection, devices: Iterable[str]) -> dict[str, DeviceState]:
    """Of those that are there."""
    return {
        row.id: _state_of(row)
        for chunk in chunks(devices)
        for row in connection.execute(select(*_STATE).where(_D.id.in_(chunk)))
    }


def keep_states(connection: Connection, states: Mapping[str, DeviceState]) -> None:
    rows = [{"id": device, **_state_values(state)} for device, state in states.items()]
    update(connection, s.devices, ["id"], rows)


def keep_last_seen(connection: Connection, devices: Sequence[str], now: float) -> None:
    """Quicker than `keep_states`, for those of which nothing else changed."""
    update(connection, s.devices, ["id"], [{"id": one, "last_seen": now} for one in devices])


def _state_of(row: Row[*tuple[Any, ...]]) -> DeviceState:
    return DeviceState(
        _presence_of(row), row.last_seen, row.revoked_at is not None, row.quarantined_at,
        row.quarantined_until, row.quarantine_why, row.arch, row.engines, row.model, row.version,
        LastReport(row.model_sequence, row.model_at, row.model_generation),
        LastReport(row.profile_sequence, row.profile_at, row.profile_generation),
        LastReport(row.inventory_sequence, row.inventory_at), row.unsettled,
    )  # fmt: skip


def _presence_of(row: Row[*tuple[Any, ...]]) -> PresenceState:
    changes = tuple(json.loads(row.changes)) if row.changes != "[]" else ()
    return PresenceState(row.online, row.online_since, changes, row.strikes, row.struck_at)


def _state_values(state: DeviceState) -> dict[str, Any]:
    presence = state.presence
    return {
        "last_seen": state.last_seen, "quarantined_at": state.quarantined_at,
        "quarantined_until": state.quarantined_until, "quarantine_why": state.quarantine_why,
        "online": presence.online, "online_since": presence.since,
        "changes": json.dumps(presence.changes) if presence.changes else "[]",
        "strikes": presence.strikes, "struck_at": presence.struck_at, "arch": state.arch,
        "engines": state.engines, "model": state.model, "version": state.version,
        "model_sequence": state.last_model.sequence, "model_at": state.last_model.at,
        "model_generation": state.last_model.generation,
        "profile_sequence": state.last_profile.sequence, "profile_at": state.last_profile.at,
        "profile_generation": state.last_profile.generation,
        "inventory_sequence": state.last_inventory.sequence,
        "inventory_at": state.last_inventory.at, "unsettled": state.unsettled,
    }  # fmt: skip


def documents(connection: Connection, devices: Sequence[str], window_s: float) -> list[Device]:
    """In the order of ids; `window_s` is that of flapping."""
    found = []
    for chunk in chunks(devices):
        desired: dict[str, dict[str, Any]] = {}
        query = select(s.desired).where(s.desired.c.device.in_(chunk))
        for row in connection.execute(query):
            desired.setdefault(row.device, {})[row.section] = desired_of(row)
        certificates: dict[str, list[Certificate]] = {}
        t = s.certificates.c
        of_chunk = select(s.certificates).where(t.device.in_(chunk)).order_by(t.not_after, t.serial)
        for row in connection.execute(of_chunk):
            certificate = Certificate.model_validate_json(row.document)
            certificates.setdefault(row.device, []).append(certificate)
        rows = select(s.devices).where(_D.id.in_(chunk))
        found += [
            _document(row, desired.get(row.id, {}), certificates.get(row.id, []), window_s)
            for row in connection.execute(rows)
        ]
    return sorted(found, key=lambda one: one.id)


def _document(
    row: Row[*tuple[Any, ...]],
    desired: Mapping[str, Any],
    certificates: Sequence[Certificate],
    window_s: float,
) -> Device:
    presence = _presence_of(row)
    model: DesiredModel | None = desired.get("model")
    profile: DesiredProfile | None = desired.get("profile")
    return Device(
        id=row.id, labels=dict(labels_of(row.labels)), group=row.group_name,
        enrolled_at=row.enrolled_at, revoked_at=row.revoked_at, quarantine=quarantine_of(row),
        presence=Presence(
            online=row.online, since=row.online_since, last_seen=row.last_seen,
            flaps=flaps(presence, row.last_seen or 0.0, window_s),
        ),
        inventory=_read(ReportedInventory, row.inventory),
        model=_read(ReportedModel, row.model_report),
        profile=_read(ReportedProfile, row.profile_report), desired_model=model,
        desired_profile=profile, certificates=tuple(certificates), revision=row.revision,
    )  # fmt: skip


def quarantine_of(row: Row[*tuple[Any, ...]]) -> Quarantine | None:
    if row.quarantined_at is None:
        return None
    return Quarantine(since=row.quarantined_at, until=row.quarantined_until, why=row.quarantine_why)


def _read(
    kind: type[ReportedInventory] | type[ReportedModel] | type[ReportedProfile], text: str | None
) -> Any:
    return None if text is None else kind.model_validate_json(text)


def ending_quarantines(connection: Connection, now: float) -> list[str]:
    """Of whom the time is over, in the order of ids. So is that of one for flapping that begins in
    the future: the clock was set back, by years perhaps.
    """
    over = and_(_D.quarantined_until.is_not(None), _D.quarantined_until <= now)
    ahead = and_(_D.quarantine_why == FLAPS, _D.quarantined_at > now + CLOCK_AHEAD_S)
    return list(connection.execute(select(_D.id).where(or_(over, ahead)).order_by(_D.id)).scalars())
