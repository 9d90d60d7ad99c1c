"""Lists that are written item by item."""

import asyncio

import pytest

from cloud.api.routes import document, listing
from cloud.learning.api.schemas import Loops
from cloud.learning.documents import Loop, LoopSettings


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_list_is_as_its_document_would_be(count):
    loops = [
        Loop(settings=LoopSettings(model=f"m-{number}", teacher="t"), revision=1)
        for number in range(count)
    ]
    whole, parts = document(Loops(loops=tuple(loops))), asyncio.run(listing("loops", loops))
    assert (parts.body, parts.headers) == (whole.body, whole.headers)
