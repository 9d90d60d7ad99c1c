"""The table of jobs, portable between SQLite and PostgreSQL."""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)

metadata = MetaData()
ROW_OVERHEAD_BYTES = 600
"""Names, numbers and four indexes' entries, as the byte bounds count them."""

jobs = Table(
    "jobs",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("id", Uuid, nullable=False, unique=True),
    Column("caller", String(128), nullable=False),
    Column("idempotency_key", String(255)),
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of the request
    Column("model", String(128), nullable=False),
    Column("version", String(64)),
    Column("request_id", String(128), nullable=False),
    Column("traceparent", String(55), nullable=False),
    Column("body", LargeBinary, nullable=False),  # empty once ended
    Column("header_length", String(16)),
    Column("row_bytes", BigInteger, nullable=False),  # what the byte bounds count
    Column("state", String(16), nullable=False),
    # when this row is next looked at, Unix seconds: queued, it may be claimed; running, the lease
    # is over; ended, it is deleted
    Column("due_at", Float(53), nullable=False),
    Column("owner", String(32)),  # a token of the claim; a later one has another
    Column("claims", Integer, nullable=False),  # without an end, in a row
    Column("attempts", Integer, nullable=False),  # that ended in `Unavailable`
    Column("created_at", Float(53), nullable=False),
    Column("expires_at", Float(53), nullable=False),
    Column("ended_at", Float(53)),
    Column("fetched_at", Float(53)),
    Column("answer", LargeBinary),
    Column("answer_header_bytes", Integer),
    Column("failure_reason", String(16)),
    Column("failure_error", String(64)),
    Column("failure_detail", Text),
    Column("webhook", String(2048)),
    Column("delivery", String(16)),
    Column("delivery_due_at", Float(53)),  # pending: may be sent; sending: the lease is over
    Column("delivery_until", Float(53)),
    Column("delivery_owner", String(32)),
    Column("delivery_attempts", Integer, nullable=False),
    UniqueConstraint("caller", "idempotency_key", name="jobs_same_key_same_job"),
    Index("jobs_due", "state", "due_at", "seq"),
    Index("jobs_of_caller", "caller", "seq", "row_bytes"),  # covers what the bounds count
    Index("jobs_deliveries", "delivery", "delivery_due_at", "caller"),
    sqlite_autoincrement=True,
)
