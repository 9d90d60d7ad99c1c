"""What a query for samples says. Pure."""

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from cloud.api.routes import Query
from cloud.feedback.documents import SampleQuery, Source
from shared.config import in_words
from shared.errors import Malformed

_PAGE: Final = (
    Query("after", minimum=0, maximum=2**63 - 1),
    Query("limit", minimum=1, maximum=1000),
)
_CONDITIONS: Final = tuple(Query(name) for name in SampleQuery.model_fields)
QUERIES: Final = (*_CONDITIONS, *_PAGE)
ACCURACY: Final = (*_CONDITIONS, Query("of"))


def whose(given: Mapping[str, str]) -> Source:
    """Whose answers an accuracy is of: the edge's unless `of` says cloud. Raises `Malformed`."""
    of = given.get("of", Source.EDGE)
    if of not in {Source.EDGE, Source.CLOUD}:
        raise Malformed("of: edge or cloud, whose answers are to be judged")
    return Source(of)


def sample_query(given: Mapping[str, str]) -> SampleQuery:
    """Raises `Malformed`."""
    asked = {name: text for name, text in given.items() if name in SampleQuery.model_fields}
    try:
        return SampleQuery.model_validate_strings(asked)
    except ValidationError as error:
        raise Malformed(f"query: {in_words(error)[:1000]}") from error
