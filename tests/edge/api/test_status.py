import asyncio
import re

from tests.edge.api.running import running


def test_status_says_what_runs_and_what_waits() -> None:
    async def scenario() -> None:
        async with running() as server:
            async with server.http.get("/nowhere") as response:
                assert response.status == 404
            async with server.http.get("/v1/status") as response:
                status = await response.json()
        assert status | {"software": "", "counters": {}} == {
            "device": "cam-1", "software": "", "ready": True, "model": "tiny-edge",
            "model_version": "1.2.3", "engine": "onnxruntime/int8", "link_up": True,
            "outbox": {"samples": 0, "bytes": 0}, "ledger": {"expired": 2, 'od"d\\': 1},
            "counters": {}, "novelty": {
                "level": "watchful", "score": 0.88, "feature": "input_low", "audit_share": 0.01,
                "raised_out": False, "looked": 7, "missing": 1,
            },
        }  # fmt: skip
        assert status["counters"] == {"answered": 0, "http_404": 1}

    asyncio.run(scenario())


def test_metrics_are_in_the_text_format_of_prometheus() -> None:
    async def scenario() -> str:
        async with running() as server, server.http.get("/metrics") as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return await response.text()

    text = asyncio.run(scenario())
    line = re.compile(r'hybridge_edge_\w+(\{(\w+="(\\.|[^"\\])*",?)+\})? \d+(\.\d+)?')
    for each in text.splitlines():
        assert each.startswith("# ") or line.fullmatch(each), each
    assert text.endswith("\n")
    assert 'hybridge_edge_given_up_total{reason="od\\"d\\\\"} 1' in text
    assert "hybridge_edge_link_up 1" in text
    assert 'hybridge_edge_novelty{level="watchful"} 1' in text
    assert 'hybridge_edge_novelty{level="novel"} 0' in text
    assert "hybridge_edge_novelty_score 0.876" in text
    assert 'hybridge_edge_events_total{event="answered"} 0' in text
