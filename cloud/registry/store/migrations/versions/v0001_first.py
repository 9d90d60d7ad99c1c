"""The tables, and the triggers that keep the log append-only."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SQLITE = """
CREATE TRIGGER registry_log_no_{event} BEFORE {event} ON registry_log
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END
"""
_POSTGRESQL_FUNCTION = """
CREATE FUNCTION registry_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the log is append-only'; END $$
"""
_POSTGRESQL = """
CREATE TRIGGER registry_log_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON registry_log
FOR EACH STATEMENT EXECUTE FUNCTION registry_log_is_append_only()
"""


def upgrade() -> None:
    """From nothing."""
    op.create_table(
        "registry_data_sets",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    op.create_table(
        "registry_deltas",
        sa.Column("to_sha256", sa.String(length=64), nullable=False),
        sa.Column("from_sha256", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("to_sha256", "from_sha256"),
    )
    op.create_table(
        "registry_evaluations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=20), nullable=False),
        sa.Column("queued_seq", sa.BigInteger(), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("lease_until", sa.Float(precision=53)),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "registry_evaluations_of_version",
        "registry_evaluations",
        ["model", "version", "queued_seq"],
    )
    op.create_index("registry_evaluations_waiting", "registry_evaluations", ["open", "queued_seq"])
    op.create_table(
        "registry_log",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(precision=53), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("model", sa.String(length=64)),
        sa.Column("version", sa.String(length=20)),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("registry_log_of_version", "registry_log", ["model", "version", "seq"])
    op.create_table(
        "registry_models",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "registry_replicas",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("seen_at", sa.Float(precision=53), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "registry_runners",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=20), nullable=False),
        sa.Column("seen_at", sa.Float(precision=53), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", "model"),
    )
    op.create_index(
        "registry_runners_of_version", "registry_runners", ["model", "version", "seen_at"]
    )
    op.create_index("registry_runners_seen", "registry_runners", ["seen_at"])
    op.create_table(
        "registry_trust",
        sa.Column("role", sa.String(length=80), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("role", "version"),
    )
    op.create_table(
        "registry_versions",
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=20), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer()),
        sa.Column("backbone", sa.String(length=85)),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("model", "version"),
    )
    op.create_index("registry_versions_in_order", "registry_versions", ["model", "rank"])
    op.create_index("registry_versions_on_backbone", "registry_versions", ["backbone"])
    if op.get_context().dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            op.execute(_SQLITE.format(event=event))
    else:
        op.execute(_POSTGRESQL_FUNCTION)
        op.execute(_POSTGRESQL)
