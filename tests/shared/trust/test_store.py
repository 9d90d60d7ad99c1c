"""What is on the device's disk: whole, checked again at each reading, repaired by a refresh."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from shared.errors import Disconnected, Malformed, NotTrusted, Refused, Unavailable, Unknown
from shared.trust.store import TrustStore
from tests.edge.test_imports import loaded_by
from tests.shared.trust.site import DAY, NOW, Site, versions


@pytest.fixture
def site() -> Site:
    site = Site(models=("fashion", "digits"))
    site.turn_root({}, site.keys["root"][:2])
    site.publish({}, root_changed=True)
    site.release("fashion", "1.0.0")
    return site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "trust"


@pytest.fixture
def device(folder: Path, site: Site) -> TrustStore:
    device = TrustStore(folder, site.files["1.root.json"])
    assert asyncio.run(versions(device, site)) == ["1.0.0"]
    return device


def test_a_device_without_a_registry_reads_what_it_trusted(site: Site, device: TrustStore) -> None:
    trusted = asyncio.run(device.refresh(site.fetch, "fashion", NOW))
    assert asyncio.run(device.load("fashion", NOW)) == trusted
    assert trusted.stale is None
    assert trusted.epoch == 1


def test_what_expired_is_read_and_says_so(device: TrustStore) -> None:
    kept = asyncio.run(device.load("fashion", NOW + 4 * DAY))
    assert [release.version for release in kept.releases] == ["1.0.0"]
    assert kept.stale is not None
    assert kept.stale.startswith("timestamp.json: expired on 2026-06-04 12:00 UTC; what runs goes")


def test_a_refresh_that_breaks_off_leaves_the_last_whole_state(
    site: Site, device: TrustStore
) -> None:
    site.release("fashion", "1.1.0")

    async def cut(name: str, bytes_max: int) -> bytes | None:
        if name.endswith("model-fashion.json"):
            raise Disconnected("cut")
        return await site.fetch(name, bytes_max)

    with pytest.raises(Disconnected):
        asyncio.run(device.refresh(cut, "fashion", NOW))
    kept = asyncio.run(device.load("fashion", NOW))
    assert [release.version for release in kept.releases] == ["1.0.0"]
    assert asyncio.run(versions(device, site)) == ["1.1.0", "1.0.0"]


def test_a_newer_root_makes_what_is_kept_stale(site: Site, device: TrustStore) -> None:
    site.turn_root({}, site.keys["root"][:2])
    timestamp = site.files.pop("timestamp.json")
    with pytest.raises(Unavailable, match="has it been set up"):
        asyncio.run(versions(device, site))
    kept = asyncio.run(device.load("fashion", NOW))
    assert kept.stale is not None
    assert kept.stale.startswith("3.root.json: is newer")
    site.files["timestamp.json"] = timestamp
    asyncio.run(versions(device, site))
    assert asyncio.run(device.load("fashion", NOW)).stale is None


@pytest.mark.parametrize("how", ["flipped", "cut", "emptied", "removed", "endless"])
def test_every_kept_file_may_break_and_a_refresh_repairs_it(
    site: Site, device: TrustStore, folder: Path, how: str
) -> None:
    names = sorted(path.name for path in folder.glob("*.json"))
    assert names == [
        "2.root.json", "chain-fashion.json", "model-fashion.json", "snapshot.json",
        "targets.json", "timestamp.json",
    ]  # fmt: skip
    for name in names:
        path = folder / name
        content = path.read_bytes()
        match how:
            case "flipped":
                middle = len(content) // 2
                path.write_bytes(
                    content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
                )
            case "cut":
                path.write_bytes(content[:-7])
            case "emptied":
                path.write_bytes(b"")
            case "removed":
                path.unlink()
            case _:
                path.write_bytes(content + b" " * 20_000_000)
        if name in {"2.root.json", "chain-fashion.json"}:
            with pytest.raises(Refused):
                asyncio.run(device.load("fashion", NOW))
        assert asyncio.run(versions(device, site)) == ["1.0.0"]
        assert path.read_bytes() == content


def test_nothing_kept_is_said(tmp_path: Path, site: Site, device: TrustStore) -> None:
    fresh = TrustStore(tmp_path / "none", site.files["1.root.json"])
    with pytest.raises(Unknown, match="nothing is kept of fashion; refresh it first"):
        asyncio.run(fresh.load("fashion", NOW))
    with pytest.raises(Unknown, match="nothing is kept of digits"):
        asyncio.run(device.load("digits", NOW))


def test_models_are_told_apart(site: Site, device: TrustStore) -> None:
    with pytest.raises(Unknown, match=r"lists no model-digits\.json yet"):
        asyncio.run(device.refresh(site.fetch, "digits", NOW))
    with pytest.raises(Unknown, match="no model 'unheard-of' is delegated"):
        asyncio.run(device.refresh(site.fetch, "unheard-of", NOW))
    site.release("digits", "9.0.0")
    trusted = asyncio.run(device.refresh(site.fetch, "digits", NOW))
    assert [release.version for release in trusted.releases] == ["9.0.0"]
    with pytest.raises(Unknown, match=r"9.0.1 is not released; released are 9.0.0"):
        trusted.release("9.0.1")


def test_the_release_with_the_highest_number_is_the_newest(site: Site, device: TrustStore) -> None:
    site.release("fashion", "1.1.0")
    site.release("fashion", "1.0.0")  # taken back to
    trusted = asyncio.run(device.refresh(site.fetch, "fashion", NOW))
    assert [(one.version, one.number) for one in trusted.releases] == [("1.0.0", 3), ("1.1.0", 2)]


def test_nothing_is_fetched_twice(site: Site, device: TrustStore) -> None:
    site.fetched.clear()
    asyncio.run(versions(device, site))
    assert site.fetched == [("3.root.json", 0), ("timestamp.json", 500)]


def test_files_of_others_in_the_folder_hide_nothing(
    site: Site, device: TrustStore, folder: Path
) -> None:
    for number in range(400):
        (folder / f"model-a{number}.json").write_bytes(b"{}")
    (folder / "x.root.json").write_bytes(b"{}")
    (folder / "\u0663.root.json").write_bytes(b"{}")
    site.fetched.clear()
    assert asyncio.run(versions(device, site)) == ["1.0.0"]
    assert site.fetched == [("3.root.json", 0), ("timestamp.json", 500)]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_unavailable(
    site: Site, device: TrustStore, folder: Path
) -> None:
    site.release("fashion", "1.1.0")
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(Unavailable, match="cannot write"):
        asyncio.run(versions(device, site))


def test_a_disk_that_is_full_is_unavailable_and_leaves_no_litter(
    site: Site, device: TrustStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    site.release("fashion", "1.1.0")
    before = sorted(folder.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(Unavailable, match="No space left on device; free space"):
            asyncio.run(versions(device, site))
    assert sorted(folder.iterdir()) == before
    assert asyncio.run(versions(device, site)) == ["1.1.0", "1.0.0"]


def test_a_pinned_root_that_is_none_is_refused(folder: Path, site: Site) -> None:
    for content, error in ((b"{}", Malformed), (site.newest["targets"], Malformed)):
        with pytest.raises(error, match="pinned root"):
            asyncio.run(TrustStore(folder, content).refresh(site.fetch, "fashion", NOW))
    forged = site.root.replace(b'"version":2', b'"version":3')
    with pytest.raises(NotTrusted, match=r"pinned root: .*signed by 0/2 keys"):
        asyncio.run(TrustStore(folder, forged).refresh(site.fetch, "fashion", NOW))


def test_a_device_without_updates_loads_no_cryptography() -> None:
    loaded = loaded_by("import shared.trust.store, shared.trust.releases, shared.trust.names")
    assert not loaded & {"tuf", "securesystemslib", "cryptography"}
