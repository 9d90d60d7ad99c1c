"""The feedback database's tables, portable between SQLite and PostgreSQL; `migrations` makes them."""

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
    # with which probability a sample like it was sent
    Column("share", Float(53), nullable=False, server_default="1"),
    Column("cloud_label", Integer, nullable=False, server_default="0"),
    Column("cloud_confidence", Float(53), nullable=False, server_default="0"),
    # the label that counts, and whose it is: "cloud" until a person says something
    Column("label", Integer, nullable=False, server_default="0"),
    Column("label_source", String(8), nullable=False, server_default="cloud"),
    Column("contradicted", Integer, nullable=False, server_default="0"),  # 1: people differ
    Column("draw", BigInteger, nullable=False, server_default="0"),  # see `draw.py`
    UniqueConstraint("sample_id", "device", name="feedback_sample_once"),
    # all that is searched, sampled and evicted by, in the order of `seq`: no payload is read for it,
    # and inserting appends to it (an index by device costs a commit as many pages as devices)
    Index(
        "feedback_search", "seq", "edge_model", "received_at", "device", "edge_version", "reason",
        "share", "label", "label_source", "contradicted", "edge_label", "cloud_label",
        "cloud_confidence", "draw", "row_bytes", "cloud_model",
    ),
    sqlite_autoincrement=True,
)  # fmt: skip

labels = Table(
    "feedback_labels",
    metadata,
    Column("sample_seq", BigInteger, primary_key=True, autoincrement=False),
    Column("by", String(200), primary_key=True),
    Column("label", Integer, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("comment", String(500), nullable=False),
)
"""What people say; one word each."""

devices = Table(
    "feedback_devices",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("row_count", BigInteger, nullable=False),
    Column("byte_count", BigInteger, nullable=False),
)
"""How much each has in `feedback`, and under no name all of them; whoever changes that changes this
in the same transaction."""

sites = Table(
    "feedback_sites",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("site", String(63), nullable=False),
)
"""The fleet's labels `site`, so that nobody has to ask it."""

data_sets = Table(
    "feedback_data_sets",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("sha256", String(64), nullable=False, index=False),
    Column("made_at", Float(53), nullable=False),
    Column("byte_count", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    Index("feedback_data_sets_by_file", "sha256"),
)

data_set_names = Table(
    "feedback_data_set_names",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("last", Integer, nullable=False),
)
"""The highest number that a name ever had: none means two things in turn."""

data_set_devices = Table(
    "feedback_data_set_devices",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("first_at", Float(53), nullable=False),
    Column("last_at", Float(53), nullable=False),
    Column("received", LargeBinary, nullable=False),  # little-endian float64, rising
    Index("feedback_data_set_devices_by_device", "device"),
)
"""Whose samples a file holds, and when they were received."""

log = Table(
    "feedback_log",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", Float(53), nullable=False),
    Column("actor", String(200), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("subject", Text, nullable=False),
    Column("comment", String(500), nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("byte_count", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
"""What was deleted: by whom, when, how much, why."""
