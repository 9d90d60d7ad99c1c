"""Alarms of drift, and what the watch over it keeps."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two more tables."""
    op.create_table(
        "fleet_drift_alarms",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("is_on", sa.Boolean(), nullable=False),
        sa.Column("opened_at", sa.Float(precision=53), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "fleet_drift_alarms_in_order", "fleet_drift_alarms", ["opened_at", "id"], unique=False
    )
    op.create_index(
        "fleet_drift_alarms_on",
        "fleet_drift_alarms",
        ["opened_at"],
        unique=False,
        sqlite_where=sa.text("is_on = 1"),
        postgresql_where=sa.text("is_on"),
    )
    op.create_table(
        "fleet_drift_record",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
