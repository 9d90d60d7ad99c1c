"""One registry process with trust and no evaluators, for all tests that only add to it."""

import itertools
from collections.abc import Iterator

import pytest

from tests.cloud.registry.servers import RegistryProcess
from tests.cloud.registry.trust_keys import TrustKeys

_NUMBERS = itertools.count()
NO_EVALUATORS = "[evaluation]\nprocesses = 0\n"


@pytest.fixture(scope="session")
def trust_keys(tmp_path_factory: pytest.TempPathFactory) -> TrustKeys:
    return TrustKeys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="session")
def running(
    tmp_path_factory: pytest.TempPathFactory, trust_keys: TrustKeys
) -> Iterator[RegistryProcess]:
    folder = tmp_path_factory.mktemp("registry")
    limits = "[api]\nupload_silence_s_max = 0.5\nuploads_max = 2\nwaits_max = 4\nbody_s_max = 0.5\n"
    more = "[deltas]\nbytes_min = 1\n"
    with RegistryProcess(folder, trust_keys.settings + limits + more + NO_EVALUATORS) as registry:
        trust_keys.publish(registry)
        yield registry


@pytest.fixture
def model(running: RegistryProcess, trust_keys: TrustKeys) -> str:
    """The name of a model of this test's own; it may be released, and is not made yet."""
    name = f"model-{next(_NUMBERS)}"
    trust_keys.delegate(running, name)
    return name
