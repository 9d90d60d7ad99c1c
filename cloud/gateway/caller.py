"""Whoever sent a request, once it is known who that is. Pure."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cloud.gateway.budget import Budget, CallerLimits
from cloud.gateway.roles import Role
from shared.errors import Forbidden, TooLarge


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """A name with what it may do.

    `identity` tells callers apart where names may not: of a key its id, of a token a digest of
    issuer and subject. `until` is when the credential is looked at anew, in the clock of `admit`.
    """

    name: str
    identity: str
    roles: frozenset[Role]  # with all that they include
    budget: Budget
    until: float

    @property
    def limits(self) -> CallerLimits:
        return self.budget.limits

    def require(self, role: Role) -> None:
        """Raise `Forbidden` unless this caller has that role."""
        if role not in self.roles:
            raise Forbidden(
                f"{self.name} may not do this: it needs the role {role}; ask whoever gave you the "
                "key or the token"
            )

    def spend(self, now: float, cost: int = 1) -> None:
        """Count a request of `cost` at `now`; raises `RateLimited` or `TooLarge` as `Budget` does."""
        self.budget.spend(now, cost)

    def unspend(self, cost: int = 1) -> None:
        """Take back what was just spent, as if the request had not come."""
        self.budget.unspend(cost)

    def check_body(self, size_bytes: int) -> None:
        """Raise `TooLarge` for a body over this caller's bound, before it is read."""
        if size_bytes > self.budget.limits.body_bytes_max:
            raise TooLarge(
                f"a body of {size_bytes:,} bytes; yours may have "
                f"{self.budget.limits.body_bytes_max:,}: send fewer rows at once"
            )

    def begin(self) -> None:
        """Take a place among the requests in hand; `end` gives it back. Raises `RateLimited`."""
        self.budget.begin()

    def end(self) -> None:
        self.budget.end()

    @contextmanager
    def working(self) -> Iterator[None]:
        """`begin` and `end` around a block."""
        self.budget.begin()
        try:
            yield
        finally:
            self.budget.end()
