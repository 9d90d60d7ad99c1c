import json
import subprocess
import sys
from pathlib import Path

import pytest

from cloud.cli.__main__ import main
from tests.tiny_bundle import write_tiny_bundle

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_bundle(
        tmp_path / "bundle", variants=("onnxruntime/fp32", "tensorrt/fp16"), labels=3
    )


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """The exit code of `hybridge ARGUMENTS`."""
    monkeypatch.setattr(sys, "argv", ["hybridge", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    code = ended.value.code
    return code if isinstance(code, int) else 0


def test_pack_then_unpack(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    assert run(monkeypatch, "model", "pack", folder) == 0
    assert capsys.readouterr().out.startswith("tiny-edge-1.0.0.hyb: tiny-edge 1.0.0, ")
    archive = folder.parent / "tiny-edge-1.0.0.hyb"
    assert run(monkeypatch, "model", "pack", folder, "other.hyb") == 0
    assert (folder.parent / "other.hyb").read_bytes() == archive.read_bytes()
    assert run(monkeypatch, "model", "unpack", archive, folder.parent / "again") == 0
    for path in folder.rglob("*.*"):
        twin = folder.parent / "again" / path.relative_to(folder)
        assert twin.read_bytes() == path.read_bytes()


def test_inspect(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert run(monkeypatch, "model", "inspect", folder) == 0
    said = capsys.readouterr().out
    for words in ("image uint8[N, 4, 4]", "onnxruntime/fp32", "balanced (default)", "brightest"):
        assert words in said


def test_inspect_shows_odd_labels_as_they_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "manifest.json").read_text().replace("class-0", "[/red]")
    (folder / "manifest.json").write_text(text)
    assert run(monkeypatch, "model", "inspect", folder) == 0
    assert "[/red]" in capsys.readouterr().out


def test_inspect_json_is_the_manifest(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "model", "inspect", "-o", "json", folder) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "manifest.json").read_text())


def test_verify(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "model", "verify", folder) == 0
    said = capsys.readouterr().out
    assert "tiny-edge 1.0.0 checks out" in said
    assert "+ onnxruntime/fp32" in said
    assert "- tensorrt/fp16" in said


def test_verify_json(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "model", "verify", "-o", "json", folder) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is True
    assert found["chosen"] == "onnxruntime/fp32"
    (folder / "card.md").write_text("other")
    assert run(monkeypatch, "model", "verify", "-o", "json", folder) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert "card.md has" in found["error"]


def test_verify_asking_for_what_cannot_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "model", "verify", folder, "--engine", "tensorrt") == 1
    assert "no variant can run here: tensorrt/fp16: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["model", "pack", "nothing"],
        ["model", "unpack", "nothing.hyb", "target"],
        ["model", "inspect", "nothing"],
        ["model", "verify", "nothing"],
    ],
)
def test_a_refusal_is_one_line_on_stderr(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: nothing")
    assert said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_archive_where_nothing_can_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "model", "pack", folder, folder.parent / "no" / "a.hyb") == 1
    assert "cannot write it: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["model", "pack"], ["model", "nothing"], ["model", "verify", "--x", "y"], ["x"]]
)
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert "Usage" in capsys.readouterr().err


def test_doctor(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "doctor", folder) == 0
    said = capsys.readouterr().out
    assert "+ onnxruntime" in said
    assert "chosen       onnxruntime/fp32" in said
    assert run(monkeypatch, "doctor", "--json", folder, "--engine", "tensorrt") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["healthy"] is False
    assert found["bundle"]["chosen"] == ""


def test_help_imports_no_engine_and_no_web_framework() -> None:
    program = (
        "import sys; from cloud.cli.__main__ import app; "
        "heavy = {'numpy', 'pydantic', 'onnxruntime', 'openvino', 'aiohttp', 'sqlalchemy'}; "
        "sys.exit(sorted(heavy & set(sys.modules)) or 0)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
