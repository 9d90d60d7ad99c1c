from pathlib import Path

import pytest

from shared.errors import Malformed
from shared.trust.names import ROOT_BYTES_MAX
from shared.trust.pinned_root import read_pinned_root


def test_it_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "1.root.json").write_bytes(b"x" * ROOT_BYTES_MAX)
    assert read_pinned_root(tmp_path / "1.root.json", "updates.root") == b"x" * ROOT_BYTES_MAX


def test_one_that_is_not_there_or_too_long_is_named_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match=r"home\.root .*none: No such file .*1\.root\.json of"):
        read_pinned_root(tmp_path / "none", "home.root")
    (tmp_path / "long").write_bytes(b"x" * (ROOT_BYTES_MAX + 1))
    with pytest.raises(Malformed, match=r"updates\.root .*long: over 65536 bytes"):
        read_pinned_root(tmp_path / "long", "updates.root")
