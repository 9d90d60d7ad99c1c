"""A report is bounded whatever the device saw."""

import json
from pathlib import Path

import numpy as np
import pytest

from edge.telemetry.health import SystemHealth, system_health
from edge.telemetry.report import OTHERS, Facts, Moment, bounded_losses, report
from edge.telemetry.sketching import Sketching
from edge.telemetry.tally import VersionTally
from shared.bundle.reader import open_bundle
from shared.errors import Malformed
from shared.fleet.telemetry import (
    BINS_MAX,
    BYTES_MAX,
    CLASSES_MAX,
    CONFIDENCE_BINS,
    FEATURES_MAX,
    LATENCY_BINS,
    LOSSES_MAX,
    STRATA_MAX,
    Health,
    Shadow,
    Sketches,
    Stratum,
    Tally,
    Telemetry,
)
from tests.edge.telemetry.test_tally import manifest

_MOST = 2**53
DEMO = Path(__file__).parents[3] / "models"
USUAL_BYTES = 2_700
"""Of a report of a device with ten classes that has seen a million samples: docs/telemetry.md."""
WORST_BYTES = 18_900
"""As above."""


def worst() -> Telemetry:
    """Each count at its bound, each text at its length of characters that JSON writes as six."""
    latency, row = (_MOST,) * LATENCY_BINS, (_MOST,) * CONFIDENCE_BINS
    stratum = Stratum(share=1 / 3, confident=_MOST, audited=_MOST, answered=_MOST, disagreed=_MOST)
    sketches = Sketches(
        reference="f" * 16, looked=_MOST, missing=_MOST,
        counts={f"{n:0>2}".replace("0", "f") + "x" * 30: (_MOST,) * BINS_MAX for n in range(FEATURES_MAX)},
    )  # fmt: skip
    tally = Tally(
        model="m" * 64, version="123456.123456.123456", started=_MOST, samples=_MOST, escalated=_MOST // 2,
        audited=_MOST // 2, answered=_MOST, disagreed=_MOST, audit_answered=_MOST,
        audit_disagreed=_MOST, failed=_MOST, latency=latency, confidence=(row,) * CLASSES_MAX,
        novel=_MOST // 2, strata=(stratum,) * STRATA_MAX,
    )  # fmt: skip
    shadow = Shadow(
        version="123456.123456.123456", started=_MOST, samples=_MOST, agreed=_MOST, failed=_MOST,
        latency=latency, both_right=_MOST, only_candidate_right=_MOST, only_active_right=_MOST,
        both_wrong=_MOST,
    )  # fmt: skip
    health = Health(
        outbox_rows=_MOST, outbox_bytes=_MOST, disk_free_bytes=_MOST, memory_bytes=_MOST,
        links_lost=_MOST, published_bytes=_MOST,
        trouble="\x01" * 500,
    )  # fmt: skip
    return Telemetry(
        boot="f" * 16, sequence=_MOST, at=1234567890.1234567, uptime_s=1e10 / 3,
        interval_s=86_400 / 7, tally=tally, shadow=shadow,
        sketches=sketches, health=health,
        losses={f"{n:02}{'x' * 38}": _MOST for n in range(LOSSES_MAX)},
    )  # fmt: skip


def usual() -> Telemetry:
    tally = VersionTally(manifest(labels=10), began=0.0)
    sketching = Sketching(open_bundle(DEMO / "fashion-edge").manifest.reference)
    with np.load(DEMO / "fashion-mnist-test-2000.npz") as data:
        images = data["images"]
    for n in range(2000):
        share = 0.2 if n > 1900 else 0.01
        tally.judged(n % 10, n % 100 / 100, "accepted", share, 0.05 * 1.01 ** (n % 900))
        sketching.said(n % 10, n % 100 / 100)
        sketching.look(images[n % len(images)])
    sketching.cells = [count * 500 for count in sketching.cells]
    tally._cells = [count * 500 for count in tally._cells]
    tally._latency = [count * 500 for count in tally._latency]
    tally.samples *= 500
    shadow = Shadow(version="1.1.0", started=1, samples=9999, latency=(99_999,) * LATENCY_BINS)
    facts = Facts((12, 34_567), {"link_lost": 3, "published_bytes": 10**9}, {"expired": 12}, "")
    return report(
        Moment("0123456789abcdef", 12_345, 1_796_011_641.1422622, 86_400.123456, 30.0), tally,
        sketching.document(), shadow, facts, SystemHealth(10**10, 10**8),
    )  # fmt: skip


def test_the_largest_report_that_there_can_be_is_within_its_bound() -> None:
    content = worst().to_bytes()
    assert len(content) <= WORST_BYTES <= BYTES_MAX
    assert Telemetry.from_bytes(content, BYTES_MAX) == worst()


def test_a_usual_report_is_small_and_reads_back() -> None:
    said = usual()
    content = said.to_bytes()
    assert len(content) <= USUAL_BYTES
    assert Telemetry.from_bytes(content, BYTES_MAX) == said


@pytest.mark.parametrize(
    "changes",
    [
        {"novel": 3},
        {"strata": [{"share": 0.1, "confident": 1, "audited": 2}]},
        {"strata": [{"share": 0.1, "confident": 9, "answered": 1, "disagreed": 2}]},
        {"strata": [{"share": 0.1}] * (STRATA_MAX + 1)},
        {"strata": [{"share": 1.1}]},
    ],
)
def test_counts_that_cannot_be_are_refused(changes: dict[str, object]) -> None:
    body = json.loads(usual().to_bytes())
    body["tally"] |= {"escalated": 2, **changes}
    with pytest.raises(Malformed):
        Telemetry.from_bytes(json.dumps(body).encode(), BYTES_MAX)


def test_what_the_region_reads_of_health() -> None:
    facts = Facts(
        (2, 99), {"link_lost": 3, "published_bytes": 10, "fleet_published_bytes": 5},
        {"expired": 4}, "t" * 900,
    )  # fmt: skip
    moment = Moment("0" * 16, 0, 1.0, -1.0, 30.0)
    said = report(moment, VersionTally(manifest(), 0.0), None, None, facts, SystemHealth(7, 8))
    assert said.health == Health(
        outbox_rows=2, outbox_bytes=99, disk_free_bytes=7, memory_bytes=8, links_lost=3,
        published_bytes=15, trouble="t" * 500,
    )  # fmt: skip
    assert (said.losses, said.uptime_s) == ({"expired": 4}, 0.0)


def test_losses_of_many_kinds_keep_their_sum() -> None:
    losses = {f"kind{n:03}": 1 for n in range(100)} | {"x" * 41: 5, OTHERS: 7}
    bounded = bounded_losses(losses)
    assert len(bounded) == LOSSES_MAX
    assert sum(bounded.values()) == sum(losses.values())
    assert all(len(name) <= 40 for name in bounded)
    assert bounded_losses({}) == {}


def test_this_process(tmp_path: Path) -> None:
    found = system_health(tmp_path)
    assert found.disk_free_bytes > 0
    assert 10**7 < found.memory_bytes < 10**11
    assert system_health(tmp_path / "none").disk_free_bytes == 0
