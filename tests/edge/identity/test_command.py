"""What `hybridge-edge enrol` reads, says, and exits with."""

import io
from pathlib import Path

import pytest

from edge.__main__ import main
from edge.identity.command import token_from, words
from edge.identity.enrol import Enrolment
from edge.identity.files import Present
from edge.identity.schedule import Validity
from shared.errors import Malformed

NOW = 1_800_000_000.0  # 2027-01-15 08:00 UTC


def test_a_token_comes_from_the_line_or_from_stdin() -> None:
    assert token_from("het_a_b", io.StringIO()) == "het_a_b"
    assert token_from("-", io.StringIO("het_a_b\nmore")) == "het_a_b"


@pytest.mark.parametrize(("argument", "stdin"), [("", ""), ("secret", ""), ("-", ""), ("-", "x\n")])
def test_what_is_no_token_is_not_repeated(argument: str, stdin: str) -> None:
    with pytest.raises(Malformed, match="het_") as refused:
        token_from(argument, io.StringIO(stdin))
    assert "secret" not in str(refused.value)


def test_it_says_where_the_files_are_and_until_when_they_are_good() -> None:
    own = Present("cam-1", "ab12", Validity(NOW, NOW + 90 * 86_400))
    said = words(Enrolment(own, "mqtts://broker:8883", Path("state/identity/current")))
    assert said.splitlines() == [
        "cam-1 is enrolled: certificate ab12",
        "  files     state/identity/current",
        "  good until 2027-04-15 08:00 UTC; the agent renews it from 2027-03-16 08:00 UTC on",
        "  broker    mqtts://broker:8883: set it as [uplink] url, if it is not",
    ]


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config := tmp_path / "agent.toml").write_text(
        'device_id = "cam-1"\nstate_dir = "state"\nbundle = "bundle"\n'
    )
    line = ["enrol", "--config", str(config), "--url"]
    assert main([*line, "https://127.0.0.1:1", "--token", "no"]) == 2
    assert main([*line, "http://fleet.example", "--token", "het_a_b"]) == 1
    assert "want https://" in capsys.readouterr().err
    assert main([*line, "https://127.0.0.1:1", "--token", "het_a_b"]) == 1
    assert "127.0.0.1" in capsys.readouterr().err
