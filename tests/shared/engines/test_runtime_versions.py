import importlib.metadata

import pytest

from shared.engines.runtime_versions import missing_runtime


def versions(name: str) -> str:
    known = {"onnxruntime": "1.22.1", "odd": "not a version", "early": "2.0.0rc1"}
    if name not in known:
        raise importlib.metadata.PackageNotFoundError(name)
    return known[name]


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ({}, None),
        ({"onnxruntime": ">=1.20,<2"}, None),
        ({"early": ">=1"}, None),
        ({"onnxruntime": ">=1.30"}, "needs onnxruntime >=1.30; 1.22.1 is installed"),
        ({"nothing": ">=1"}, "needs nothing >=1, which is not installed"),
        ({"onnxruntime": "newest"}, "needs onnxruntime 'newest', which is no version specifier"),
        ({"odd": ">=1"}, "cannot read the installed version 'not a version'"),
    ],
)
def test_the_first_unmet_need_is_named(needs: dict[str, str], said: str | None) -> None:
    found = missing_runtime(needs, versions)
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert said in found
