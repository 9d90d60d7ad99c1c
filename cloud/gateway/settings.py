"""The `gateway` part of the cloud's configuration: who may call, and how much."""

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from cloud.broker.exposure import is_loopback
from cloud.gateway.budget import CallerLimits
from cloud.gateway.rates import parse_rates
from cloud.gateway.refresh import RefreshRules
from cloud.gateway.roles import Role
from cloud.gateway.token import TokenRules
from shared.config import Count, Positive, Section
from shared.errors import Malformed

Text = Annotated[str, StringConstraints(min_length=1, max_length=500)]


class TokenSettings(Section):
    """JSON Web Tokens of one issuer, signed with Ed25519."""

    issuer: Text
    """`iss`, as the tokens have it, to the letter."""
    audience: Text
    """`aud`: what the issuer calls this service. Tokens for others are refused."""
    keys_url: str | None = None
    """Where the issuer publishes its keys (JWKS): `https://...`; `http` on this machine only."""
    keys_file: Path | None = None
    """Or a file with them, read at the start and on SIGHUP."""
    revoked_file: Path | None = None
    """`jti` of tokens that are not taken any more, one a line; read at the start and on SIGHUP."""
    leeway_s: Annotated[float, Field(ge=0, le=300)] = 30.0
    """How far the issuer's clock may be off."""
    roles_claim: Text = "roles"
    """Where the roles stand: a list, or a text with spaces between; `a.b` looks into `a`."""
    token_bytes_max: Annotated[int, Field(ge=256, le=16_384)] = 4096
    """Tokens have 0.3 to 2 KB; web servers take headers of 8 KB."""
    refresh_s: Positive = 300.0
    """The keys are fetched anew this often, or when 80% of the issuer's `max-age` is over, if that
    is sooner. It is how long a key lives on that the issuer took back."""
    pause_s_min: Positive = 30.0
    """Between two requests to the issuer, also where tokens name keys that nobody knows."""
    stale_s_max: Positive = 86_400.0
    """How long the last keys are used while the issuer cannot be reached. A day: an outage that
    somebody will have seen."""
    fetch_timeout_s: Positive = 5.0
    """Of one request to the issuer, in all."""

    @field_validator("keys_url")
    @classmethod
    def _is_safe(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.username or parts.password:
            raise ValueError("a key set is public: no user or password in keys_url")
        if not parts.hostname or not (
            parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
        ):
            raise ValueError(
                "want https://...: who can change keys on their way can sign tokens (http is for "
                "this machine)"
            )
        return url

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.keys_url is None) == (self.keys_file is None):
            raise ValueError("give keys_url or keys_file, one of them")
        if self.refresh_s < self.pause_s_min:
            raise ValueError(f"refresh_s is at least pause_s_min ({self.pause_s_min} s)")
        if self.stale_s_max <= self.refresh_s:
            raise ValueError(f"stale_s_max is above refresh_s ({self.refresh_s} s)")
        return self

    @property
    def rules(self) -> TokenRules:
        return TokenRules(
            self.issuer, self.audience, self.leeway_s, self.roles_claim, self.token_bytes_max
        )

    @property
    def refreshing(self) -> RefreshRules:
        return RefreshRules(self.refresh_s, self.pause_s_min, self.stale_s_max)


class GatewaySettings(Section):
    key_file: Path | None = None
    """API keys: `hybridge key` writes it. Read at the start and on SIGHUP."""
    tokens: TokenSettings | None = None
    """None: no tokens are taken."""
    allow_anonymous: bool | None = None
    """Callers without a key or token. None: only where there are no keys and no tokens to have."""
    anonymous_roles: tuple[Role, ...] = tuple(Role)
    """What they may do, where they are let in."""
    rate: str | None = None
    """Of each caller whose key names none, in rows: `100/second; 10000/hour`. None: no limit but
    what the models can do."""
    body_bytes_max: Count = 16 << 20
    """Of each request, where the key says nothing else: a hundred images of 224 x 224, raw."""
    in_hand_max: Count = 512
    """Requests at once of each caller, where the key says nothing else. Half of the connections
    that there may be, so that none can have them all."""
    storage: SecretStr = SecretStr("memory://")
    """Where rate limits are counted: in each worker, or in `redis://`, `rediss://`, `valkey://`,
    `memcached://host:port`, which workers share (`pip install redis`, `valkey`, `pymemcache`)."""
    seen_max: Count = 10_000
    """Credentials that are remembered as checked, with up to 4 KB of token each."""
    seen_s_max: Positive = 300.0
    """How long, before they are checked again: what a clock that was set can be off by."""
    callers_max: Count = 10_000
    """Callers whose rates are counted; beyond, those not heard of for longest begin anew."""
    failures_burst: Count = 20
    """Failed attempts that an address may have at once; then it is refused unheard, but for
    credentials that were good before. An IPv6 address stands for its /64."""
    failures_per_s: Positive = 1.0
    """And after that. Addresses behind one proxy are one: raise it there."""
    failures_per_s_total: Positive = 500.0
    """Of all addresses together: at 0.2 ms each, a tenth of a core."""
    addresses_max: Count = 10_000
    """Addresses remembered for that, the ones that failed last."""
    log_period_s: Positive = 60.0
    """One line for each reason of refusal in this time, with the number of those held back."""

    @field_validator("rate")
    @classmethod
    def _is_a_rate(cls, rate: str | None) -> str | None:
        if rate is not None:
            try:
                parse_rates(rate)
            except Malformed as error:
                raise ValueError(str(error)) from error
        return rate

    @property
    def lets_anonymous_in(self) -> bool:
        """`allow_anonymous`, or what follows from there being keys or tokens."""
        if self.allow_anonymous is not None:
            return self.allow_anonymous
        return self.key_file is None and self.tokens is None

    @property
    def limits(self) -> CallerLimits:
        """Of a caller whose key says nothing else."""
        rates = () if self.rate is None else parse_rates(self.rate)
        return CallerLimits(rates, self.body_bytes_max, self.in_hand_max)

    def check_exposed(self, host: str) -> None:
        """Raise `Malformed` if other machines reach `host` and nothing asks them who they are."""
        guarded = self.key_file is not None or self.tokens is not None
        if guarded or self.allow_anonymous or is_loopback(host):
            return
        raise Malformed(
            f"api.host {host} lets other machines in: give gateway.key_file or gateway.tokens, or "
            "say gateway.allow_anonymous = true"
        )
