import json
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared.bundle.files import BYTES_MAX, MEMBERS_MAX
from shared.bundle.reader import open_bundle, parse_manifest
from shared.errors import HybridgeError, Malformed, NotTrusted, TooLarge
from tests.tiny_bundle import file_of, rewrite_manifest, write_tiny_bundle


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_bundle(tmp_path / "bundle", codec="grey4", dictionary=b"grey levels" * 9)


def respell(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest's JSON, valid or not."""
    tree = json.loads((folder / "manifest.json").read_text())
    change(tree)
    (folder / "manifest.json").write_text(json.dumps(tree))


def replace_golden(folder: Path, **arrays: np.ndarray[Any, Any]) -> None:
    """New golden samples with the right hash."""
    packed = BytesIO()
    np.savez_compressed(packed, allow_pickle=True, **arrays)
    (folder / "golden.npz").write_bytes(packed.getvalue())
    entry = file_of("golden.npz", packed.getvalue()).model_dump()
    respell(folder, lambda tree: tree["golden"].update(file=entry))


def test_a_valid_folder_opens(folder: Path) -> None:
    bundle = open_bundle(folder)
    assert bundle.manifest.version == "1.0.0"
    assert bundle.golden.inputs.shape == (16, 4, 4)
    assert bundle.golden.outputs.dtype == np.float32
    assert bundle.dictionary == b"grey levels" * 9
    graph = bundle.manifest.variants[0].file
    assert bundle.read(graph) == (folder / graph.path).read_bytes()
    assert bundle.manifest_bytes == (folder / "manifest.json").read_bytes()


def test_who_hands_the_graphs_on_has_them_measured_alone(folder: Path) -> None:
    graph = folder / open_bundle(folder).manifest.variants[0].file.path
    flipped = bytearray(graph.read_bytes())
    flipped[-1] ^= 1
    graph.write_bytes(flipped)
    bundle = open_bundle(folder, hashes_graphs=False)
    with pytest.raises(NotTrusted, match="sha256"):
        bundle.read(bundle.manifest.variants[0].file)
    graph.write_bytes(flipped[:-1])
    with pytest.raises(NotTrusted, match=r"has .* bytes"):
        open_bundle(folder, hashes_graphs=False)
    graph.unlink()
    with pytest.raises(Malformed, match="cannot read"):
        open_bundle(folder, hashes_graphs=False)


def test_golden_samples_are_read_only(folder: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        open_bundle(folder).golden.inputs[0] = 0


def test_a_file_that_changes_after_opening_is_refused_when_it_is_read(folder: Path) -> None:
    bundle = open_bundle(folder)
    graph = bundle.manifest.variants[0].file
    content = bytearray((folder / graph.path).read_bytes())
    content[-1] ^= 1
    (folder / graph.path).write_bytes(content)
    with pytest.raises(NotTrusted, match=r"model\.onnx has sha256"):
        bundle.read(graph)


def test_no_such_bundle(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="there is no such bundle"):
        open_bundle(tmp_path / "nothing.hyb")


def test_a_folder_that_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="this is not a bundle"):
        open_bundle(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.update(format=2), "made by a newer Hybridge"),
        (lambda t: t.update(format="1"), "format: Input should be 1"),
        (lambda t: t.pop("labels"), "labels: 0 of them; a classifier needs two or more"),
        (lambda t: t.update(labels=["only", "two"]), "shape (3,) for 2 labels"),
        (lambda t: t.update(surprise=1), "surprise: Extra inputs are not permitted"),
        (lambda t: t["variants"][0]["file"].update(path="../up"), "not a plain relative path"),
        (lambda t: t["variants"][0].update(engine="abacus"), "variants.0.engine"),
        (lambda t: t["inputs"][0].update(dtype="string"), "inputs.0.dtype"),
        (lambda t: t["calibration"].update(temperature=0), "calibration.temperature"),
        (lambda t: t["calibration"].update(default_threshold="x"), "default_threshold 'x'"),
        (lambda t: t["golden"]["tolerance"].pop("fp32"), "golden.tolerance does not say what fp32"),
        (lambda t: t["golden"]["agreement_min"].pop("fp32"), "golden.agreement_min does not say"),
        (lambda t: t["inputs"][0].update(shape=[5, 4]), "manifest says uint8[N, 5, 4]"),
        (lambda t: t["card"].update(path="gone.md"), "cannot read gone.md"),
    ],
)
def test_a_wrong_manifest_is_refused_in_words(
    folder: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    respell(folder, change)
    if said.startswith("cannot read"):
        (folder / "card.md").unlink()
    with pytest.raises(Malformed) as refusal:
        open_bundle(folder)
    assert said in str(refusal.value)
    assert str(folder) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"format": NaN}', b"[]", b"1"]
)
def test_a_manifest_that_is_not_json(content: bytes) -> None:
    with pytest.raises(Malformed, match=r"^here: "):
        parse_manifest(content, "here")


def test_infinity_is_no_temperature(folder: Path) -> None:
    text = (folder / "manifest.json").read_text()
    spoiled = text.replace('"temperature": 1.0', '"temperature": Infinity')
    assert spoiled != text
    with pytest.raises(Malformed, match="not JSON"):
        parse_manifest(spoiled.encode(), "here")


def test_a_huge_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b" " * 5_000_000)
    with pytest.raises(TooLarge, match=r"manifest\.json is over"):
        open_bundle(folder)


@pytest.mark.parametrize("path", ["variants/model.onnx", "golden.npz", "payload.dict", "card.md"])
@pytest.mark.parametrize("spoil", ["flip", "cut", "lengthen"])
def test_every_listed_file_must_be_what_the_manifest_says(
    folder: Path, path: str, spoil: str
) -> None:
    content = bytearray((folder / path).read_bytes())
    match spoil:
        case "flip":
            content[len(content) // 2] ^= 4
        case "cut":
            del content[-1]
        case _:
            content.append(0)
    (folder / path).write_bytes(content)
    said = {"flip": "has sha256", "cut": r"has \d+ bytes", "lengthen": "is longer than"}[spoil]
    with pytest.raises(NotTrusted, match=f"{path} {said}"):
        open_bundle(folder)


def test_an_unlisted_file_is_refused(folder: Path) -> None:
    (folder / "variants" / ".hidden").write_bytes(b"x")
    with pytest.raises(NotTrusted, match=r"variants/\.hidden is not in manifest\.json"):
        open_bundle(folder)


def test_a_link_in_a_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes((folder / "card.md").read_bytes())
    (folder / "card.md").unlink()
    (folder / "card.md").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotTrusted, match=r"card\.md is a link"):
        open_bundle(folder)


def test_a_pipe_in_a_folder_is_refused_without_reading_it(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(NotTrusted, match="special file"):
        open_bundle(folder)


def test_a_folder_of_many_files_is_no_bundle(folder: Path) -> None:
    for number in range(MEMBERS_MAX):
        (folder / f"file-{number}").touch()
    with pytest.raises(TooLarge, match="is it a bundle"):
        open_bundle(folder)


def test_a_manifest_that_lists_too_much(folder: Path) -> None:
    respell(folder, lambda tree: tree["card"].update(bytes=BYTES_MAX))
    with pytest.raises(TooLarge, match="at most"):
        open_bundle(folder)


IMAGES = np.zeros((2, 4, 4), np.uint8)
LOGITS = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"inputs": IMAGES}, "must hold `inputs` and `outputs`"),
        ({"inputs": IMAGES, "outputs": LOGITS, "more": LOGITS}, "must hold"),
        ({"inputs": IMAGES, "outputs": LOGITS[:1]}, "2 inputs for 1 outputs"),
        ({"inputs": IMAGES[:0], "outputs": LOGITS[:0]}, "0 inputs for 0 outputs"),
        ({"inputs": IMAGES.astype(np.float32), "outputs": LOGITS}, "inputs are float32[2, 4, 4]"),
        ({"inputs": IMAGES[:, :3], "outputs": LOGITS}, "inputs are uint8[2, 3, 4]"),
        ({"inputs": np.uint8(1), "outputs": LOGITS}, "inputs are uint8[]"),
        ({"inputs": IMAGES, "outputs": LOGITS[:, :2]}, "outputs are float32[2, 2]"),
        ({"inputs": IMAGES, "outputs": LOGITS.astype(np.float64)}, "outputs are float64[2, 3]"),
        ({"inputs": IMAGES, "outputs": LOGITS * np.float32("nan")}, "NaN"),
        ({"inputs": np.array([{}], object), "outputs": LOGITS}, "not a plain number"),
    ],
)
def test_golden_samples_must_fit(
    folder: Path, arrays: dict[str, np.ndarray[Any, Any]], said: str
) -> None:
    replace_golden(folder, **arrays)
    with pytest.raises(Malformed) as refusal:
        open_bundle(folder)
    assert said in str(refusal.value)
    assert "golden.npz" in str(refusal.value)


def test_a_golden_bomb_is_refused_unopened(folder: Path) -> None:
    replace_golden(folder, inputs=np.zeros((5_000_000, 4, 4), np.uint8), outputs=LOGITS)
    assert (folder / "golden.npz").stat().st_size < 200_000
    with pytest.raises(TooLarge, match="use fewer samples"):
        open_bundle(folder)


def test_golden_that_is_no_zip(folder: Path) -> None:
    (folder / "golden.npz").write_bytes(b"not a zip")
    entry = file_of("golden.npz", b"not a zip").model_dump()
    respell(folder, lambda tree: tree["golden"].update(file=entry))
    with pytest.raises(Malformed, match=r"not a readable \.npz"):
        open_bundle(folder)


def test_two_variants_may_share_a_file_but_not_disagree_about_it(folder: Path) -> None:
    def disagree(tree: dict[str, Any]) -> None:
        other = json.loads(json.dumps(tree["variants"][0]))
        other["engine"] = "openvino"
        other["file"]["bytes"] += 1
        tree["variants"].append(other)

    respell(folder, disagree)
    with pytest.raises(Malformed, match="listed twice with different contents"):
        open_bundle(folder)


def test_a_rewritten_manifest_still_opens(folder: Path) -> None:
    bundle = open_bundle(folder)
    rewrite_manifest(folder, bundle.manifest.model_copy(update={"version": "1.0.1"}))
    assert open_bundle(folder).manifest.version == "1.0.1"


def test_refusals_share_one_base(folder: Path) -> None:
    (folder / "card.md").unlink()
    with pytest.raises(HybridgeError, match=r"cannot read card\.md"):
        open_bundle(folder)
