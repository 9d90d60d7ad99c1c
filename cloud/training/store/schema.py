"""The tables of training, portable between SQLite and PostgreSQL.

`spec`, `parameters`, `figures` and `document` are JSON of `cloud/training/documents.py`. The
conditions of indexes are as SQLAlchemy writes them in queries: SQLite compares them by the letter.
Changed only by a new file in `migrations/versions/`.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
)

metadata = MetaData()

jobs = Table(
    "training_jobs",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("id", String(80), nullable=False, unique=True),
    Column("team", String(64), nullable=False),
    Column("priority", Integer, nullable=False),  # may be changed; the spec keeps what was asked
    Column("cpus", Integer, nullable=False),
    Column("spec", Text, nullable=False),
    Column("submitted_by", String(200), nullable=False),
    Column("submitted_at", Float(53), nullable=False),
    Column("idempotency_key", String(200)),
    Column("state", String(16), nullable=False),
    Column("due_at", Float(53), nullable=False),  # queued: not before; running: the lease ends
    Column("since", Float(53), nullable=False),  # queued: since when it waits
    Column("owner", String(32)),  # a token of the claim; a later one has another
    Column("worker", String(64), nullable=False),  # queued: where something was away for it
    Column("level", Integer, nullable=False),  # what it counted for when it began
    Column("stop", String(16), nullable=False),  # cancel or preempt, asked of the worker
    Column("attempts", Integer, nullable=False),
    Column("preemptions", Integer, nullable=False),
    Column("preempted_at", Float(53)),
    Column("began_at", Float(53)),  # of this attempt
    Column("started_at", Float(53)),  # of the first
    Column("ended_at", Float(53)),
    Column("worked_s", Float(53), nullable=False),
    Column("progress", Float(53), nullable=False),
    Column("why", String(1000), nullable=False),
    Column("bundle", String(100)),
    Column("bundle_sha256", String(64)),
    Column("checkpoint", String(64)),  # sha256, in the artifact store: for another machine
    Column("checkpoint_name", String(100)),
    Index("training_jobs_by_state", "state", "seq"),
    Index("training_jobs_of_team", "team", "seq"),
    Index("training_jobs_ended", "ended_at"),
    Index("training_jobs_same_key_same_job", "submitted_by", "idempotency_key", unique=True,
          sqlite_where=text("idempotency_key IS NOT NULL"),
          postgresql_where=text("idempotency_key IS NOT NULL")),
)  # fmt: skip
quotas = Table(
    "training_quotas",
    metadata,
    Column("team", String(64), primary_key=True),
    Column("document", Text, nullable=False),
)
workers = Table(
    "training_workers",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("token", String(32), nullable=False),  # of its process: two of one name would fight
    Column("cpus", Integer, nullable=False),
    Column("seen_at", Float(53), nullable=False),
    Column("kept_apart_by", String(500), nullable=False),
)
runs = Table(
    "training_runs",
    metadata,
    Column("job", String(80), primary_key=True),
    Column("parameters", Text, nullable=False),
    Column("data_set", String(64)),
    Column("code_version", String(200), nullable=False),
    Column("machine", String(500), nullable=False),
    Column("started_at", Float(53), nullable=False),
    Column("ended_at", Float(53)),
    Column("figures", Text, nullable=False),
)
artifacts = Table(
    "training_artifacts",
    metadata,
    Column("job", String(80), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Index("training_artifacts_by_hash", "sha256"),
)
points = Table(
    "training_points",
    metadata,
    Column("job", String(80), primary_key=True),
    Column("metric", String(64), primary_key=True),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Float(53), nullable=False),
    Column("at", Float(53), nullable=False),
    Index("training_points_by_step", "job", "step"),
)
logs = Table(
    "training_logs",
    metadata,
    Column("job", String(80), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("text", Text, nullable=False),
)
