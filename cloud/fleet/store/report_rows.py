"""What devices reported last, whole."""

from collections.abc import Sequence

from sqlalchemy import Connection

from cloud.fleet.heard import Report
from cloud.fleet.store import schema as s
from cloud.store.upsert import update
from shared.fleet.reported import ReportedInventory, ReportedModel


def keep(connection: Connection, reports: Sequence[tuple[str, Report]]) -> None:
    """At most one of a section and device."""
    by_column: dict[str, list[dict[str, str]]] = {}
    for device, report in reports:
        column = _column(report)
        row = {"id": device, column: report.model_dump_json()}
        by_column.setdefault(column, []).append(row)
    for _, rows in sorted(by_column.items()):
        update(connection, s.devices, ["id"], rows)


def _column(report: Report) -> str:
    if isinstance(report, ReportedInventory):
        return "inventory"
    return "model_report" if isinstance(report, ReportedModel) else "profile_report"
