"""References from a real registry."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from cloud.fleet.drift.references import References
from cloud.fleet.settings import RegistryAsk
from cloud.monitoring.drift.reference import without
from shared.errors import HybridgeError
from shared.sketches import reference_hash
from tests.cloud.registry.pushing import MODEL, make_model, push
from tests.cloud.registry.servers import RegistryProcess, registry


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    folder = tmp_path_factory.mktemp("registry")
    with registry(folder / "home", "[evaluation]\nprocesses = 0\n") as process:
        make_model(process)
        push(process, folder / "bundle", "1.0.0")
        yield process


def test_a_version_s_reference_is_that_of_its_manifest(home: RegistryProcess) -> None:
    references = References(
        RegistryAsk(urls=(home.url,), api_key_file=home.key_file("viewer")), Random(1)
    )
    found = asyncio.run(references.of((MODEL, "1.0.0"), 0.0))
    assert (found.model, found.version) == (MODEL, "1.0.0")
    assert len(found.hash) == len(reference_hash(())) == 16


def test_of_a_version_that_the_registry_does_not_have_nothing_is_known(
    home: RegistryProcess,
) -> None:
    references = References(
        RegistryAsk(urls=(home.url,), api_key_file=home.key_file("viewer")), Random(1)
    )
    assert asyncio.run(references.of((MODEL, "9.9.9"), 0.0)) == without(MODEL, "9.9.9")


def test_a_version_that_is_registered_later_is_asked_for_again_within_the_hour(
    home: RegistryProcess, tmp_path: Path
) -> None:
    references = References(
        RegistryAsk(urls=(home.url,), api_key_file=home.key_file("viewer")), Random(1)
    )
    late, there = (MODEL, "3.0.0"), (MODEL, "1.0.0")
    assert asyncio.run(references.of(late, 0.0)) == without(*late)
    asyncio.run(references.of(there, 0.0))
    assert references.due([], [late, there], 3599.0) == []
    assert references.due([], [late, there], 3600.0) == [late]
    push(home, tmp_path / "bundle", "3.0.0")
    assert asyncio.run(references.of(late, 3600.0)) != without(*late)
    assert references.due([], [late, there], 10_000.0) == []


def test_a_clock_that_is_set_back_puts_off_no_question(home: RegistryProcess) -> None:
    key = home.key_file("viewer")
    references = References(RegistryAsk(urls=(home.url,), api_key_file=key), Random(1))
    of = (MODEL, "9.9.9")
    asyncio.run(references.of(of, 100_000.0))
    assert references.due([], [of], 100_010.0) == []
    assert references.due([], [of], 10.0) == [of]
    away = References(RegistryAsk(urls=("http://127.0.0.1:1",), api_key_file=key), Random(1))
    with pytest.raises(HybridgeError):
        asyncio.run(away.of(of, 100_000.0))
    assert away.due([of], [], 10.0) == [of]


def test_a_version_that_is_watched_no_more_is_asked_for_no_more(home: RegistryProcess) -> None:
    references = References(
        RegistryAsk(urls=(home.url,), api_key_file=home.key_file("viewer")), Random(1)
    )
    of = (MODEL, "9.9.9")
    asyncio.run(references.of(of, 0.0))
    assert references.due([], [], 1.0) == []
    assert references.due([], [of], 3600.0) == []


def test_without_a_registry_nothing_is_known() -> None:
    assert asyncio.run(References(None, Random(1)).of(("m", "1.0.0"), 0.0)) == without("m", "1.0.0")


def test_a_registry_that_does_not_answer_is_asked_later(
    home: RegistryProcess, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("hy_nonsense")
    asks = RegistryAsk(urls=(home.url,), api_key_file=tmp_path / "key")
    references, of = References(asks, Random(1)), (MODEL, "1.0.0")
    assert references.due([of], [], 0.0) == [of]
    with pytest.raises(HybridgeError):
        asyncio.run(references.of(of, 0.0))
    assert references.due([of], [], 0.5) == []
    assert references.due([of], [], 310.0) == [of]
