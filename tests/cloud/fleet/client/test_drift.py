"""The client of a fleet's drift against a server whose answers are prepared."""

import asyncio

from cloud.fleet.client.client import FleetClient
from cloud.fleet.client.settings import FleetClientSettings
from cloud.monitoring.drift.documents import DriftState, ScopeState
from tests.cloud.cli.learning_views import NOW, SCOPE, drift_alarm
from tests.cloud.registry.client.scripted_server import ok, scripted

QUICK = FleetClientSettings(patience_s=5.0, pause_s_min=0.001, pause_s_max=0.002, page=2)


def test_scopes_and_alarms_come_page_by_page_and_pages_that_go_round_end() -> None:
    scope = ScopeState(scope=SCOPE, samples=3, devices=1, updated_at=NOW)
    first = DriftState(scopes=(scope, scope), alarms=(drift_alarm(),), next="a")
    last = DriftState(scopes=(scope,), alarms=(drift_alarm(),), next="a")
    alarms = {"alarms": [drift_alarm().model_dump(mode="json")], "next": "x"}

    async def work() -> None:
        pages = (ok(first.model_dump(mode="json")), ok(last.model_dump(mode="json")), ok(alarms))
        async with scripted(*pages) as server, FleetClient([server.url], None, QUICK) as fleet:
            found = await fleet.drift.state("group", "lyon")
            assert (len(found.scopes), len(found.alarms)) == (3, 1)
            assert len(await fleet.drift.alarms()) == 2
        assert [path for _, path, _ in server.asked] == [
            "/v1/drift?kind=group&name=lyon&limit=2",
            "/v1/drift?kind=group&name=lyon&after=a&limit=2",
            "/v1/drift/alarms?on=true&limit=2",
            "/v1/drift/alarms?on=true&after=x&limit=2",
        ]

    asyncio.run(work())
