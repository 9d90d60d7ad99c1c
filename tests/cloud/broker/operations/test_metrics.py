import re

from prometheus_client.parser import text_string_to_metric_families

from cloud.broker.operations.metrics import BY_REASON, COUNTERS, GAUGES, PREFIX, exposition
from tests.cloud.broker.operations.sample import Figures, busy_status


def samples(text: bytes) -> dict[tuple[str, str], float]:
    """By name and the value of the only label."""
    return {
        (sample.name.removeprefix(PREFIX), "".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_a_scrape_says_what_the_status_says() -> None:
    found = samples(exposition(busy_status(Figures())))
    assert found["info", "1.2.3"] == 1
    assert (found["sessions", "connected"], found["sessions", "offline"]) == (2, 1)
    assert found["uptime_seconds", ""] == 40
    assert found["packets_received_total", ""] == 10
    assert found["received_bytes_total", ""] == 1_000
    assert found["messages_dropped_total", "queue_full"] == 2
    assert found["messages_dropped_total", "expired"] == 0
    assert found["connects_refused_total", "not_authorized"] == 2
    assert found["connections_closed_total", "keep_alive_timeout"] == 1
    assert found["limit", "connections_max"] == 10_000
    assert found["store_commits_total", ""] == 7
    assert found["store_last_commit_seconds", ""] == 0.0025
    assert found["process_resident_memory_bytes", ""] > 1_000_000


def test_every_table_is_exposed_with_its_help() -> None:
    text = exposition(busy_status()).decode()
    for table, suffix in ((GAUGES, ""), (COUNTERS, "_total"), (BY_REASON, "_total")):
        for name, (what, _) in table.items():  # type: ignore[attr-defined]  # three value types
            assert f"# HELP {PREFIX}{name}{suffix} {what}\n" in text


def test_without_a_store_there_is_no_word_of_it() -> None:
    assert "store" not in exposition(busy_status()).decode()


def test_no_label_names_a_client() -> None:
    text = exposition(busy_status(Figures())).decode()
    labels = set(re.findall(r"(\w+)=\"", text))
    assert labels <= {"version", "state", "name", "reason"}
    assert not re.search("reader|anna|10\\.0\\.0\\.1", text)
