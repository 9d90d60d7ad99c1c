"""Samples, as they were before this database had versions: a table that is there is taken as it is."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From nothing, or from a program that knew no versions."""
    op.create_table(
        "feedback",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("sample_id", sa.Uuid(), nullable=False),
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(16), nullable=False),
        sa.Column("captured_at", sa.Float(53), nullable=False),
        sa.Column("received_at", sa.Float(53), nullable=False),
        sa.Column("codec", sa.String(16), nullable=False),
        sa.Column("dtype", sa.String(16), nullable=False),
        sa.Column("shape", sa.String(64), nullable=False),
        sa.Column("dictionary", sa.String(16), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("edge_model", sa.String(64), nullable=False),
        sa.Column("edge_version", sa.String(64), nullable=False),
        sa.Column("edge_label", sa.Integer(), nullable=False),
        sa.Column("edge_confidence", sa.Float(53), nullable=False),
        sa.Column("cloud_model", sa.String(64), nullable=False),
        sa.Column("cloud_version", sa.String(64), nullable=False),
        sa.Column("probabilities", sa.LargeBinary(), nullable=False),
        sa.Column("queue_ms", sa.Float(53), nullable=False),
        sa.Column("run_ms", sa.Float(53), nullable=False),
        sa.Column("row_bytes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("sample_id", "device", name="feedback_sample_once"),
        sqlite_autoincrement=True,
        if_not_exists=True,
    )
