"""Where artifacts may lie."""

import pytest
from pydantic import ValidationError

from cloud.registry.artifacts.settings import ArtifactSettings


@pytest.mark.parametrize("url", ["/srv/x", "http://host/x", "file://host/x", "file:///", "x" * 501])
def test_places_that_are_none(url: str) -> None:
    with pytest.raises(ValidationError, match=r"artifacts live at|a directory is|at most 500"):
        ArtifactSettings(url=url)


@pytest.mark.parametrize("url", ["file:///srv/x", "s3://bucket/prefix", "gs://bucket"])
def test_places(url: str) -> None:
    assert ArtifactSettings(url=url).url == url


def test_hours_are_seconds() -> None:
    settings = ArtifactSettings(grace_hours=2, upload_hours=0.5)
    assert (settings.grace_s, settings.upload_s) == (7200, 1800)


def test_a_grace_in_which_nobody_can_store_and_commit_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        ArtifactSettings(grace_hours=0.5)
