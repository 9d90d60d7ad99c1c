"""What people write stands in logs, on terminals and in databases of which one takes no NUL."""

import pytest

from cloud.feedback.api.schemas import LabelRequest
from cloud.feedback.documents import Deletion
from cloud.learning.api.schemas import CommentRequest
from cloud.learning.documents import Decision
from cloud.training.api.schemas import CommentRequest as JobComment
from cloud.training.documents import Half, JobSpec
from shared.plain_text import plain

MADE = (
    lambda text: LabelRequest(label=1, comment=text),
    lambda text: Deletion(device="cam-1", comment=text),
    lambda text: CommentRequest(comment=text),
    lambda text: Decision(verb="stop", comment=text),
    lambda text: JobComment(comment=text),
    lambda text: JobSpec(
        recipe=Half(version="1.0.1", source="a@1.0.0", base="b"), comment=text
    ),
)  # fmt: skip


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("text", ["a\0b", "\x1b[2J", "\x9b31m", "bell\x07\n", "\x7f"])
def test_control_characters_are_refused(make, text):
    with pytest.raises(ValueError, match="comment"):
        make(text)
    assert make(plain(text)).comment == plain(text)


@pytest.mark.parametrize("make", MADE)
def test_plain_text_of_any_language_is_taken(make):
    text = "Löwe,\t狮子\r\n\U0001f981 <script>\n"
    assert make(text).comment == plain(text) == text
