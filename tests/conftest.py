"""What tests of several packages share."""

from tests.postgres import postgres

__all__ = ["postgres"]
