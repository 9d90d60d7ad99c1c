"""The tables of the loops, portable between SQLite and PostgreSQL.

`document` is JSON of `cloud/learning`. Changed only by a new file in `migrations/versions/`.
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

loops = Table(
    "learning_loops",
    metadata,
    Column("model", String(64), primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("made_at", Float(53), nullable=False),
    Column("document", Text, nullable=False),
)
cycles = Table(
    "learning_cycles",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("id", String(80), nullable=False, unique=True),
    Column("model", String(64), nullable=False),
    Column("is_over", Boolean, nullable=False),
    Column("learned_until", Float(53)),  # of one that is done: its samples taught a version
    Column("document", Text, nullable=False),
    Index("learning_cycles_of_model", "model", "is_over", "number"),
    sqlite_autoincrement=True,  # a number is a name, also of what was deleted
)
lines = Table(
    "learning_cycle_lines",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("cycle", String(80), nullable=False),
    Column("at", Float(53), nullable=False),
    Column("words", Text, nullable=False),
    Index("learning_cycle_lines_of_cycle", "cycle", "seq"),
)
checks = Table(
    "learning_checks",
    metadata,
    Column("model", String(64), primary_key=True),
    Column("document", Text, nullable=False),
)
refits = Table(
    "learning_refits",
    metadata,
    Column("model", String(64), primary_key=True),
    Column("at", Float(53), nullable=False),
)
