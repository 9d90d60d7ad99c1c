import os

import pytest

from shared.plain_text import plain


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("a\tb\nc\rd", "a\tb\nc\rd"),
        ("größer, 大きい, 🚲", "größer, 大きい, 🚲"),
        ("a\0b\x1b[2J\x7f\x9f", "a\ufffdb\ufffd[2J\ufffd\ufffd"),
        (os.fsdecode(b"step\xff.ckpt"), "step\ufffd.ckpt"),
    ],
)
def test_what_a_terminal_or_a_database_would_stumble_over_is_replaced(said, kept):
    assert plain(said) == kept
    assert kept.encode().decode() == kept
