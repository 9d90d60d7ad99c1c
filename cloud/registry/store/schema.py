"""The registry's tables, portable between SQLite and PostgreSQL.

`log` is the truth; the others hold what follows from it, but `replicas` and `runners`, which hold
what these last said. `document` is the JSON of `cloud/registry/documents.py`; columns beside it are
there to be searched. Changed only by a new file in `migrations/versions/`.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

log = Table(
    "registry_log",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", Integer, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("actor", String(200), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("model", String(64)),  # of the change, where it is about one
    Column("version", String(20)),
    Column("change", Text, nullable=False),  # JSON
    Column("previous", String(64), nullable=False),
    Column("sha256", String(64), nullable=False),
    Index("registry_log_of_version", "model", "version", "seq"),
)
models = Table(
    "registry_models",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("document", Text, nullable=False),
)
versions = Table(
    "registry_versions",
    metadata,
    Column("model", String(64), primary_key=True),
    Column("version", String(20), primary_key=True),
    Column("rank", BigInteger, nullable=False),  # rises with the version
    Column("number", Integer),  # of its newest release
    Column("backbone", String(85)),  # "name version"
    Column("deleted", Boolean, nullable=False),
    Column("document", Text, nullable=False),
    Index("registry_versions_in_order", "model", "rank"),
    Index("registry_versions_on_backbone", "backbone"),
)
evaluations = Table(
    "registry_evaluations",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("model", String(64), nullable=False),
    Column("version", String(20), nullable=False),
    Column("queued_seq", BigInteger, nullable=False),
    Column("open", Boolean, nullable=False),  # queued or running
    Column("lease_until", Float(53)),  # of a running one, with its renewals
    Column("document", Text, nullable=False),
    Index("registry_evaluations_waiting", "open", "queued_seq"),
    Index("registry_evaluations_of_version", "model", "version", "queued_seq"),
)
data_sets = Table(
    "registry_data_sets",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", Text, nullable=False),
)
deltas = Table(
    "registry_deltas",
    metadata,
    Column("to_sha256", String(64), primary_key=True),
    Column("from_sha256", String(64), primary_key=True),
    Column("document", Text, nullable=False),
)
trust = Table(
    "registry_trust",
    metadata,
    Column("role", String(80), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", Text, nullable=False),
)
replicas = Table(
    "registry_replicas",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("seen_at", Float(53), nullable=False),
    Column("document", Text, nullable=False),
)
runners = Table(
    "registry_runners",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("model", String(64), primary_key=True),
    Column("version", String(20), nullable=False),
    Column("seen_at", Float(53), nullable=False),
    Column("document", Text, nullable=False),
    Index("registry_runners_of_version", "model", "version", "seen_at"),
    Index("registry_runners_seen", "seen_at"),
)
