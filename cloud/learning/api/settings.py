"""The `api` part of the learning process's settings."""

from typing import Annotated

from pydantic import Field

from cloud.api.settings import DocumentApi
from shared.config import Count


class LearningApi(DocumentApi):
    port: Annotated[int, Field(ge=0, le=65_535)] = 8730
    """0 picks a free one; the ready line names it."""
    json_bytes_max: Annotated[int, Field(gt=0, le=16 * 1024**2)] = 1024 * 1024
    """Of a body. A data set's specification that names 10,000 devices has 700 KB."""
    bodies_bytes_max: Count = 16 * 1024 * 1024
    """Of all bodies in hand."""
    waits_max: Annotated[int, Field(gt=0, le=10_000)] = 64
    """Questions that wait for a cycle; each `loop watch` has one."""
    wait_s_max: Annotated[float, Field(gt=0, le=60)] = 55.0
    """How long each may wait; proxies close silent connections after a minute."""
    page_max: Annotated[int, Field(gt=0, le=5000)] = 1000
    """Cycles of one answer, of 1 to 10 KB each."""
