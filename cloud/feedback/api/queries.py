"""What a query for samples says. Pure."""

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from cloud.api.routes import Query
from cloud.feedback.documents import SampleQuery
from shared.config import in_words
from shared.errors import Malformed

_PAGE: Final = (
    Query("after", minimum=0, maximum=2**63 - 1),
    Query("limit", minimum=1, maximum=1000),
)
QUERIES: Final = (*(Query(name) for name in SampleQuery.model_fields), *_PAGE)


def sample_query(given: Mapping[str, str]) -> SampleQuery:
    """Raises `Malformed`."""
    asked = {name: text for name, text in given.items() if name in SampleQuery.model_fields}
    try:
        return SampleQuery.model_validate_strings(asked)
    except ValidationError as error:
        raise Malformed(f"query: {in_words(error)[:1000]}") from error
