"""What tests of several packages share."""

from collections.abc import Iterator

import pytest

from simulations.postgres import Postgres, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for the whole session; a test takes a `new_database` of it."""
    with running_postgres() as found:
        yield found
