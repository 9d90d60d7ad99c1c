"""A worker beside a real registry: what a job begins with is what the root of trust vouches for, and
what it makes is pushed.
"""

import asyncio
import shutil

import pytest

from cloud.training.documents import JobState
from tests.cloud.cli.own_registry import own_registry
from tests.cloud.training.worker.standing import Standing
from tests.end_to_end.fleet_site import delegate, release
from tests.tiny_bundle import write_tiny_bundle

pytestmark = pytest.mark.slow
MODEL = "tiny-edge"


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """With `tiny-edge` 1.0.0, released, and 0.9.0, only pushed."""
    folder = tmp_path_factory.mktemp("registry")
    with own_registry(folder / "made", evaluates=True) as running:
        delegate(running, MODEL)
        early = write_tiny_bundle(folder / "early", version="0.9.0", scale=9.0)
        running.json("trainer", "model", "push", early, "--wait")
        release(running, write_tiny_bundle(folder / "one"), MODEL)
        yield running


def standing(folder, registry, root, **more):
    at = Standing(
        folder,
        f'registry = {{ urls = ["{registry.url}"], root = "{root}", '
        f'api_key_file = "{registry.keys / "api" / "fetch.key"}", '
        f'push_key_file = "{registry.keys / "api" / "trainer.key"}" }}',
        **more,
    )
    shutil.rmtree(folder / "bundles")
    (folder / "bundles").mkdir()
    return at


def over(at, spec):
    async def go():
        job = await at.queue.submit(spec, "ann")
        async with at.working():
            return await at.over(job.id)

    found = asyncio.run(go())
    at.close()
    return found


def test_a_released_bundle_is_begun_with_and_its_child_is_pushed(registry, tmp_path):
    at = standing(tmp_path / "at", registry, registry.keys / "1.root.json")
    spec = at.spec("trains", push=True)
    job = over(at, spec)
    assert (job.state, job.bundle, job.why) == (JobState.DONE, f"{MODEL}@1.0.1", "")
    pushed = registry.json("viewer", "model", "get", MODEL, "1.0.1")
    assert pushed["origin"]["training_job"] == job.id
    assert pushed["origin"]["parent"] == "1.0.0"


def test_what_is_not_released_is_not_taken(registry, tmp_path):
    at = standing(tmp_path / "at", registry, registry.keys / "1.root.json")
    spec = at.spec("trains")
    recipe = spec.recipe.model_copy(update={"source": f"{MODEL}@0.9.0"})
    job = over(at, spec.model_copy(update={"recipe": recipe}))
    assert (job.state, job.attempts) == (JobState.FAILED, 1)
    assert job.why == f"{MODEL} 0.9.0 is not released; released are 1.0.0"


def test_a_registry_of_another_root_is_not_trusted(registry, tmp_path):
    with own_registry(tmp_path / "other", evaluates=False) as other:
        at = standing(tmp_path / "at", registry, other.keys / "1.root.json")
    job = over(at, at.spec("trains"))
    assert job.state is JobState.FAILED
    assert "timestamp was signed by 0/1 keys" in job.why


def test_a_bundle_of_a_folder_has_no_parent_that_the_registry_lacks(registry, tmp_path):
    at = standing(tmp_path / "at", registry, registry.keys / "1.root.json")
    write_tiny_bundle(tmp_path / "at" / "bundles" / MODEL, version="0.1.0", scale=5.0)
    spec = at.spec("trains", push=True)
    recipe = spec.recipe.model_copy(update={"source": f"{MODEL}@0.1.0", "version": "0.1.1"})
    job = over(at, spec.model_copy(update={"recipe": recipe}))
    assert (job.state, job.why) == (JobState.DONE, "")
    assert registry.json("viewer", "model", "get", MODEL, "0.1.1")["origin"]["parent"] is None
