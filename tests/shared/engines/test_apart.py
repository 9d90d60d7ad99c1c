import subprocess
import sys
from pathlib import Path

import pytest

from shared.bundle.reader import open_bundle
from shared.engines import apart
from shared.engines.apart import choose_apart
from shared.engines.ranking import NoChoice
from shared.errors import NotTrusted, Unavailable, Unknown
from tests.tiny_bundle import sure_image, write_tiny_bundle

ROOT = Path(__file__).parents[3]
TWO = ("onnxruntime/fp32", "openvino/fp32")
PROGRAM = """
import sys
from pathlib import Path
from shared.bundle.reader import open_bundle
from shared.engines.apart import choose_apart
choice = choose_apart(open_bundle(Path(sys.argv[1])), batch_max=1)
loaded = {"onnxruntime", "openvino"} & set(sys.modules)
assert loaded == {choice.variant.engine}, loaded
print(choice.variant.key)
"""


def test_only_the_winners_runtime_is_loaded_here(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    folder = write_tiny_bundle(tmp_path / "bundle", variants=TWO)
    (program := tmp_path / "program.py").write_text(PROGRAM)
    ran = subprocess.run(
        [sys.executable, str(program), str(folder)],
        env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() in TWO


def test_the_choice_is_open_and_every_variant_is_explained(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle", variants=(*TWO, "tensorrt/fp16"))
    choice = choose_apart(open_bundle(folder))
    assert choice.session.run(sure_image(2)[None]).argmax() == 2
    assert [verdict.chosen for verdict in choice.verdicts].count(True) == 1
    assert all(verdict.reason for verdict in choice.verdicts)
    chosen = next(verdict for verdict in choice.verdicts if verdict.chosen)
    assert chosen.variant == choice.variant
    assert chosen.reason == choice.reason
    assert chosen.latency_ms is not None
    choice.session.close()


def test_one_asked_for_by_name(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle", variants=TWO)
    choice = choose_apart(open_bundle(folder), wanted="onnxruntime")
    assert choice.variant.key == "onnxruntime/fp32"
    choice.session.close()
    with pytest.raises(Unknown, match="no variant for 'tensorrt'"):
        choose_apart(open_bundle(folder), wanted="tensorrt")


def test_nothing_that_can_run(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle", variants=TWO)
    bundle = open_bundle(folder)
    needs = {"numpy": "<1"}
    variants = [v.model_copy(update={"runtime": needs}) for v in bundle.manifest.variants]
    changed = bundle.manifest.model_copy(update={"variants": tuple(variants)})
    (folder / "manifest.json").write_text(changed.model_dump_json())
    with pytest.raises(NoChoice, match=r"openvino/fp32: needs numpy <1") as refusal:
        choose_apart(open_bundle(folder))
    assert len(refusal.value.verdicts) == 2


def test_a_runtime_that_takes_its_process_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "_PROGRAM", "import os; os.abort()")
    folder = write_tiny_bundle(tmp_path / "bundle", variants=TWO)
    with pytest.raises(Unavailable, match="name an engine to use only that one"):
        choose_apart(open_bundle(folder))


def test_a_runtime_that_prints_and_one_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle", variants=TWO)
    chatty = "import shared.engines.apart as a; f = a.choose\n"
    chatty += "def g(*p, **k): print('hello'); return f(*p, **k)\n"
    monkeypatch.setattr(apart, "_PROGRAM", chatty + "a.choose = g; a.rank_for_parent()")
    choose_apart(open_bundle(folder)).session.close()
    monkeypatch.setattr(apart, "_PROGRAM", "import signal; signal.pause()")
    monkeypatch.setattr(apart, "_RANK_S_MAX", 0.2)
    with pytest.raises(Unavailable, match=r"timed out after 0\.2 seconds"):
        choose_apart(open_bundle(folder))


def test_a_bundle_that_changed_meanwhile_is_refused_with_its_own_error(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle", variants=TWO)
    bundle = open_bundle(folder)
    (folder / "card.md").write_text("other")
    with pytest.raises(NotTrusted, match=r"card\.md"):
        choose_apart(bundle)
