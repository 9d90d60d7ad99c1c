"""A job's bundle into a real registry, also where an attempt before this one has been there."""

import asyncio

import pytest

from cloud.training.worker.pushing import push
from cloud.training.worker.settings import WorkerRegistry
from shared.bundle.writer import pack
from shared.errors import Conflict
from tests.cloud.registry.pushing import MODEL
from tests.cloud.registry.servers import RegistryProcess
from tests.tiny_bundle import write_tiny_bundle


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Each test has a version of its own."""
    with RegistryProcess(tmp_path_factory.mktemp("registry")) as running:
        yield running


def pushed(registry, folder, version, job, scale=12.0):
    """By a worker whose job made it; what is said of it."""
    write_tiny_bundle(folder / "made", name=MODEL, version=version, scale=scale)
    pack(folder / "made", folder / "made.hyb")
    key = folder / "trainer.key"
    key.write_text(f"{registry.key('trainer')}\n")
    settings = WorkerRegistry(urls=(registry.url,), root=folder / "1.root.json", api_key_file=key)
    return asyncio.run(push(settings, folder / "made.hyb", job, None))


def there(registry, version):
    return registry.get(f"/v1/models/{MODEL}/versions/{version}").json


def test_the_same_bundle_again_is_there_already(registry, tmp_path):
    assert pushed(registry, tmp_path / "one", "1.0.1", "job-1") == ""
    assert pushed(registry, tmp_path / "two", "1.0.1", "job-1") == ""
    assert there(registry, "1.0.1")["origin"]["training_job"] == "job-1"


def test_what_an_attempt_before_pushed_stays_where_the_next_makes_another(registry, tmp_path):
    pushed(registry, tmp_path / "one", "1.0.2", "job-1")
    before = there(registry, "1.0.2")
    said = pushed(registry, tmp_path / "two", "1.0.2", "job-1", scale=11.0)
    assert said.startswith(f"an attempt before pushed {MODEL} 1.0.2, which stays in the registry")
    assert before["manifest"]["sha256"][:16] in said
    assert there(registry, "1.0.2") == before


def test_another_jobs_version_of_that_number_is_in_its_way(registry, tmp_path):
    pushed(registry, tmp_path / "one", "1.0.3", "job-1")
    with pytest.raises(Conflict, match=r"1\.0\.3 is registered with another"):
        pushed(registry, tmp_path / "two", "1.0.3", "job-2", scale=11.0)
