"""What a manifest may say of a model that is cut into a backbone and its heads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared.bundle.reader import open_bundle
from shared.engines.known import known_engines
from shared.engines.ranking import choose
from shared.errors import Malformed
from tests.shared.bundle.test_reader import respell
from tests.split_bundle import BACKBONE, write_backbone, write_head
from tests.tiny_bundle import sure_image, tiny_logits, write_tiny_bundle

Change = Callable[[dict[str, Any]], None]


def test_a_backbone_and_its_head_pass_their_golden_samples_and_make_the_whole_model(
    tmp_path: Path,
) -> None:
    engines = known_engines()
    backbone = choose(open_bundle(write_backbone(tmp_path / "backbone")), engines).session
    head = open_bundle(write_head(tmp_path / "head", shift=1))
    assert head.manifest.backbone == BACKBONE
    session = choose(head, engines).session
    images = np.stack([sure_image(label) for label in range(3)])
    assert np.allclose(session.run(backbone.run(images)), tiny_logits(images, shift=1), atol=1e-6)
    session.close()
    backbone.close()


def sketch(tree: dict[str, Any]) -> None:
    tree["outputs"][0]["shape"] = [4, 4]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tree: tree.update(labels=["a", "b"]), "embeds answers nobody"),
        (lambda tree: tree.update(answers_for=["tiny-edge"]), "embeds answers nobody"),
        (lambda tree: tree.update(backbone={"name": "other", "version": "1.0.0"}), "embeds"),
        (sketch, r"outputs\[0\] is float32\[4, 4\]; heads take float32 \[features\]"),
        (lambda tree: tree["outputs"][0].update(dtype="int8"), r"outputs\[0\] is int8\[16\]"),
        (lambda tree: tree.update(task="classify"), "labels: 0 of them"),
    ],
)
def test_a_backbone_that_is_none_is_refused(tmp_path: Path, change: Change, said: str) -> None:
    folder = write_backbone(tmp_path / "backbone")
    respell(folder, change)
    with pytest.raises(Malformed, match=said):
        open_bundle(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tree: tree["inputs"][0].update(dtype="uint8"), "takes its output alone"),
        (lambda tree: tree["inputs"][0].update(shape=[4, 4]), "takes its output alone"),
        (lambda tree: tree["inputs"].append(tree["inputs"][0]), "takes its output alone"),
        (lambda tree: tree["backbone"].update(name="tiny-head"), "cannot be its own"),
        (lambda tree: tree["backbone"].pop("version"), "backbone.version"),
        (lambda tree: tree["labels"].pop(), r"outputs\[0\] has shape \(3,\) for 2 labels"),
    ],
)
def test_a_head_that_is_none_is_refused(tmp_path: Path, change: Change, said: str) -> None:
    folder = write_head(tmp_path / "head")
    respell(folder, change)
    with pytest.raises(Malformed, match=said):
        open_bundle(folder)


def test_a_manifest_from_before_there_were_backbones_still_opens(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "whole")
    respell(folder, lambda tree: tree.pop("backbone"))
    manifest = open_bundle(folder).manifest
    assert manifest.backbone is None
    assert manifest.task == "classify"
