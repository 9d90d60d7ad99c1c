"""Tables, portable between SQLite and PostgreSQL."""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    Uuid,
)

metadata = MetaData()

feedback = Table(
    "feedback",
    metadata,
    # rises with time, so the oldest are the first; SQLite's rowid, so appending stays cheap
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("sample_id", Uuid, nullable=False),
    Column("device", String(64), nullable=False),
    Column("reason", String(16), nullable=False),
    Column("captured_at", Float(53), nullable=False),  # Unix seconds by the device's clock
    Column("received_at", Float(53), nullable=False),  # Unix seconds by ours
    Column("codec", String(16), nullable=False),
    Column("dtype", String(16), nullable=False),
    Column("shape", String(64), nullable=False),  # "28,28"
    Column("dictionary", String(16), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("edge_model", String(64), nullable=False),
    Column("edge_version", String(64), nullable=False),
    Column("edge_label", Integer, nullable=False),
    Column("edge_confidence", Float(53), nullable=False),
    Column("cloud_model", String(64), nullable=False),
    Column("cloud_version", String(64), nullable=False),
    Column("probabilities", LargeBinary, nullable=False),  # little-endian float32 [classes]
    Column("queue_ms", Float(53), nullable=False),
    Column("run_ms", Float(53), nullable=False),
    Column("row_bytes", Integer, nullable=False),  # what the byte quota counts
    UniqueConstraint("sample_id", "device", name="feedback_sample_once"),
    sqlite_autoincrement=True,
)
