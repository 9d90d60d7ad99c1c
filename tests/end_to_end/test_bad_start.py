"""What a process finds on its disk: bad bundles, a damaged state, no room, a clock that jumped."""

import hashlib
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from shared.bundle.writer import pack
from tests.end_to_end.site import INFER, Site, open_site, request
from tests.tiny_bundle import tiny_onnx, unsure_image

_TEN_YEARS_S = 10 * 365 * 86_400


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path) as it:
        it.configure("[routing]\naudit_share = 0.0\n")
        yield it


def rewrite(bundle: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    change(manifest)
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def another_graph(bundle: Path) -> None:
    """Whole and listed as it is, but not with the outputs that the manifest states."""
    graph = tiny_onnx(labels=5)
    (bundle / "variants/model.onnx").write_bytes(graph)
    stated = {"bytes": len(graph), "sha256": hashlib.sha256(graph).hexdigest()}
    rewrite(bundle, lambda m: [v["file"].update(stated) for v in m["variants"]])


def archive(bundle: Path, member: tarfile.TarInfo) -> None:
    """In place of the folder: its archive, with one member more."""
    pack(bundle, packed := bundle.with_suffix(".hyb"))
    content = zstandard.ZstdDecompressor().decompress(packed.read_bytes())
    extended = content.rstrip(b"\0")
    extended += bytes(-len(extended) % 512) + member.tobuf(tarfile.USTAR_FORMAT) + bytes(1024)
    shutil.rmtree(bundle)
    packed.unlink()
    bundle.write_bytes(zstandard.ZstdCompressor().compress(extended))


def link() -> tarfile.TarInfo:
    member = tarfile.TarInfo("card.txt")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return member


def cut(bundle: Path) -> None:
    pack(bundle, packed := bundle.with_suffix(".hyb"))
    shutil.rmtree(bundle)
    packed.rename(bundle)
    os.truncate(bundle, bundle.stat().st_size - 100)


BAD_BUNDLES: dict[str, tuple[Callable[[Path], object], str]] = {
    "hash": (lambda b: flip(b / "variants/model.onnx"), "fetch the bundle again"),
    "schema": (lambda b: rewrite(b, lambda m: m.pop("task")), "task: Field required"),
    "labels": (lambda b: rewrite(b, lambda m: m["labels"].append("x")), "for 4 labels"),
    "input": (
        lambda b: rewrite(b, lambda m: m["inputs"][0].update(shape=[5, 5])), "the manifest says",
    ),
    "graph": (another_graph, "no variant can run here"),
    "newer": (lambda b: rewrite(b, lambda m: m.update(format=2)), "update this program"),
    "outside": (lambda b: archive(b, tarfile.TarInfo("../evil")), "not a plain relative path"),
    "link": (lambda b: archive(b, link()), "not a plain file"),
    "cut": (cut, "copy it again"),
}  # fmt: skip


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("fault", BAD_BUNDLES)
def test_a_bad_bundle_ends_the_agent_with_one_line(site: Site, fault: str) -> None:
    spoil, words = BAD_BUNDLES[fault]
    spoil(site.folder / "edge-bundle")
    said = site.refused("agent")
    assert said.startswith(f"hybridge-edge: {site.folder / 'edge-bundle'}: "), said
    assert words in said


@pytest.mark.parametrize("fault", ["hash", "newer", "link"])
def test_a_bad_bundle_ends_the_worker_with_one_line(site: Site, fault: str) -> None:
    spoil, words = BAD_BUNDLES[fault]
    spoil(site.folder / "cloud-bundle")
    site.up("broker")
    said = json.loads(site.refused("cloud"))
    assert said["event"] == "cloud_not_started"
    assert words in said["why"]
    assert str(site.folder / "cloud-bundle") in said["why"]


def test_a_bundle_swapped_under_a_running_agent_waits_for_its_next_start(site: Site) -> None:
    site.up("broker", "cloud", "agent")
    flip(site.folder / "edge-bundle/variants/model.onnx")
    site.good()
    assert site.down("agent") == 0
    assert "model.onnx has sha256" in site.refused("agent")


def test_what_waits_survives_damage_and_a_clock_that_jumped_over_a_reboot(site: Site) -> None:
    site.up("broker", "agent")
    samples = [site.sends(unsure_image(10 * n)) for n in range(6)]
    assert "is held by process" in site.refused("agent")
    site.kill("agent")
    with sqlite3.connect(site.folder / "agent/state.db") as db:
        db.execute("UPDATE outbox SET escalation = x'c1' WHERE seq IN (2, 4)")
        db.execute("UPDATE clock SET boot = 'another', wall_s = wall_s - ?", (_TEN_YEARS_S,))
    site.new_lines("agent")
    site.up("cloud", "agent")
    finals = [site.final(sample) for sample in samples]
    assert [f["given_up"] for f in finals] == ["", "damaged", "", "damaged", "", ""]
    assert [f["source"] for f in finals].count("cloud") == 4
    site.until(lambda: site.ledger() == {"damaged": 2})
    assert site.counters()["outbox_row_damaged"] == 2
    events = [line["event"] for line in site.new_lines("agent")]
    assert events.count("outbox_row_damaged") == 1
    site.kill("agent")
    with sqlite3.connect(site.folder / "agent/state.db") as db:  # and back again
        db.execute("UPDATE clock SET boot = 'a third', wall_s = wall_s + ?", (_TEN_YEARS_S,))
    site.up("agent")
    site.good()
    assert site.ledger() == {"damaged": 2}
    assert [site.down(name) for name in ("agent", "cloud", "broker")] == [0, 0, 0]


def test_a_damaged_state_is_said_at_each_start_until_it_is_moved_away(site: Site) -> None:
    site.up("broker", "cloud", "agent")
    site.good()
    assert site.down("agent") == 0
    file = site.folder / "agent/state.db"
    content = file.read_bytes()
    inside = content[:4096] + b"\xa5" * (len(content) - 4096)
    for spoilt in (b"no database" * 1000, inside, None):  # None: as it is, once more
        if spoilt is not None:
            file.write_bytes(spoilt)
        said = site.refused("agent")
        assert said.startswith(f"hybridge-edge: {file}: ")
        assert "the file is damaged: move it away, and the agent starts a new one" in said
    file.rename(file.with_suffix(".damaged"))
    site.up("agent")
    site.good()


def limit_files(site: Site, name: str, bytes_max: int) -> None:
    """No file of this process may grow any more: needs no rights, unlike a full file system."""
    pid = site.region.running[name].pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (bytes_max, resource.RLIM_INFINITY))


def full_then_free(site: Site, fill: Callable[[], object], free: Callable[[], object]) -> None:
    """Answers go on while the agent's disk is full; what it did not take is in the ledger."""
    site.up("broker", "cloud", "agent")
    site.good()
    site.kill("cloud")
    waits = site.sends(unsure_image(1))
    fill()
    lost = []
    while not site.ledger().get("disk_full"):
        lost.append(site.sends(unsure_image(2)))
        assert len(lost) < 1000
    site.up("cloud")
    assert site.final(waits)["source"] == "cloud"  # its row waits in memory for room
    free()
    site.until(lambda: bool(logged(site, "disk_has_room_again")))
    site.good()
    assert len(logged(site, "disk_full")) == 1
    site.until(lambda: _settled(site))


def _settled(site: Site) -> bool:
    status = site.ask("/v1/status").document
    settled = status["counters"]["answered"] + sum(status["ledger"].values())
    return bool(status["counters"]["recorded"] == settled and not status["outbox"]["samples"])


def logged(site: Site, event: str) -> list[dict[str, Any]]:
    lines = (site.folder / "agent.log").read_text().splitlines()
    return [entry for line in lines if (entry := json.loads(line))["event"] == event]


def test_a_file_that_may_not_grow_loses_nothing_silently(site: Site) -> None:
    full_then_free(
        site,
        lambda: limit_files(site, "agent", (site.folder / "agent/state.db-wal").stat().st_size),
        lambda: limit_files(site, "agent", resource.RLIM_INFINITY),
    )


@pytest.fixture
def small_disk(site: Site) -> Iterator[Path]:
    (folder := site.folder / "agent").mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    if subprocess.run(mounting, check=False, capture_output=True).returncode:
        pytest.skip("a file system of its own needs root; the limit on files above needs none")
    try:
        yield folder
    finally:
        site.kill("agent") if "agent" in site.region.running else None
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_file_system_loses_nothing_silently(site: Site, small_disk: Path) -> None:
    filler = small_disk / "filler"
    full_then_free(site, lambda: fill(filler), filler.unlink)
    assert site.down("agent") == 0
    fill(filler)
    said = site.refused("agent")
    assert "free space on its disk" in said
    filler.unlink()
    site.up("agent")
    site.good()


def fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue


def test_a_worker_whose_disk_is_full_goes_on_answering(site: Site) -> None:
    """More samples than may be in hand at once: answers wait for no feedback."""
    site.up("broker", "cloud", "agent")
    site.good()
    site.until(
        lambda: site.cloud("hybridge_stored_total") == 1
    )  # so the log of writes is not empty
    limit_files(site, "cloud", (site.folder / "cloud/feedback.db-wal").stat().st_size)
    for start in range(0, 768, 256):
        images = np.stack([unsure_image(n % 200) for n in range(start, start + 256)])
        assert site.ask(INFER, request(images)).status == 200
    site.until(lambda: _settled(site))
    assert site.ledger() == {}
    ready = site.ask("/v2/health/ready", of="cloud")
    assert (ready.status, ready.document["because"]) == (503, "the feedback store is down")
    assert site.cloud("hybridge_store_failures_total") > 0
    assert site.cloud("hybridge_unstored_total") > 0
    limit_files(site, "cloud", resource.RLIM_INFINITY)
    site.until(lambda: site.cloud("hybridge_stored_total") == 769)
    site.good()
    events = [line["event"] for line in site.new_lines("cloud")]
    assert (events.count("feedback_store_down"), events.count("feedback_store_up")) == (1, 1)
    limit_files(site, "cloud", 0)
    site.sends(unsure_image(3))
    site.until(lambda: _settled(site))
    assert site.down("cloud") == 0
