"""The tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From nothing."""
    op.create_table(
        "fleet_certificates",
        sa.Column("serial", sa.String(length=40), nullable=False),
        sa.Column("device", sa.String(length=64), nullable=False),
        sa.Column("not_after", sa.Float(precision=53), nullable=False),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("serial"),
    )
    op.create_index("fleet_certificates_end", "fleet_certificates", ["not_after"], unique=False)
    op.create_index(
        "fleet_certificates_of_device", "fleet_certificates", ["device", "not_after"], unique=False
    )
    op.create_table(
        "fleet_desired",
        sa.Column("device", sa.String(length=64), nullable=False),
        sa.Column("section", sa.String(length=10), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("published", sa.Boolean(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("device", "section"),
    )
    op.create_index(
        "fleet_desired_unpublished",
        "fleet_desired",
        ["device", "section"],
        unique=False,
        sqlite_where=sa.text("published = 0"),
        postgresql_where=sa.text("NOT published"),
    )
    op.create_table(
        "fleet_devices",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("group_name", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("enrolled_at", sa.Float(precision=53), nullable=True),
        sa.Column("revoked_at", sa.Float(precision=53), nullable=True),
        sa.Column("quarantined_at", sa.Float(precision=53), nullable=True),
        sa.Column("quarantined_until", sa.Float(precision=53), nullable=True),
        sa.Column("quarantine_why", sa.String(length=500), nullable=False),
        sa.Column("online", sa.Boolean(), nullable=False),
        sa.Column("online_since", sa.Float(precision=53), nullable=True),
        sa.Column("last_seen", sa.Float(precision=53), nullable=True),
        sa.Column("changes", sa.Text(), nullable=False),
        sa.Column("strikes", sa.Integer(), nullable=False),
        sa.Column("struck_at", sa.Float(precision=53), nullable=True),
        sa.Column("arch", sa.String(length=40), nullable=False),
        sa.Column("engines", sa.Text(), nullable=False),
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=20), nullable=False),
        sa.Column("model_sequence", sa.BigInteger(), nullable=False),
        sa.Column("model_at", sa.Float(precision=53), nullable=False),
        sa.Column("model_generation", sa.BigInteger(), nullable=False),
        sa.Column("profile_sequence", sa.BigInteger(), nullable=False),
        sa.Column("profile_at", sa.Float(precision=53), nullable=False),
        sa.Column("profile_generation", sa.BigInteger(), nullable=False),
        sa.Column("inventory_sequence", sa.BigInteger(), nullable=False),
        sa.Column("inventory_at", sa.Float(precision=53), nullable=False),
        sa.Column("model_report", sa.Text(), nullable=True),
        sa.Column("profile_report", sa.Text(), nullable=True),
        sa.Column("inventory", sa.Text(), nullable=True),
        sa.Column("unsettled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("fleet_devices_of_group", "fleet_devices", ["group_name", "id"], unique=False)
    op.create_index(
        "fleet_devices_quarantine_ends",
        "fleet_devices",
        ["quarantined_until"],
        unique=False,
        sqlite_where=sa.text("quarantined_until IS NOT NULL"),
        postgresql_where=sa.text("quarantined_until IS NOT NULL"),
    )
    op.create_index(
        "fleet_devices_unsettled",
        "fleet_devices",
        ["id"],
        unique=False,
        sqlite_where=sa.text("unsettled = 1"),
        postgresql_where=sa.text("unsettled"),
    )
    op.create_table(
        "fleet_events",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("device", sa.String(length=64), nullable=True),
        sa.Column("rollout", sa.String(length=80), nullable=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("fleet_events_of_device", "fleet_events", ["device", "seq"], unique=False)
    op.create_index("fleet_events_of_rollout", "fleet_events", ["rollout", "seq"], unique=False)
    op.create_table(
        "fleet_groups",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "fleet_profiles",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    op.create_table(
        "fleet_rollout_devices",
        sa.Column("rollout", sa.String(length=80), nullable=False),
        sa.Column("device", sa.String(length=64), nullable=False),
        sa.Column("section", sa.String(length=10), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("phase", sa.String(length=20), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("rollout", "device"),
    )
    op.create_index(
        "fleet_rollout_devices_by_phase",
        "fleet_rollout_devices",
        ["rollout", "phase", "device"],
        unique=False,
    )
    op.create_index(
        "fleet_rollout_devices_held_once",
        "fleet_rollout_devices",
        ["device", "section"],
        unique=True,
        sqlite_where=sa.text("active = 1"),
        postgresql_where=sa.text("active"),
    )
    op.create_table(
        "fleet_rollouts",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("section", sa.String(length=10), nullable=False),
        sa.Column("subject", sa.String(length=64), nullable=False),
        sa.Column("group_name", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("parks", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Float(precision=53), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("fleet_rollouts_in_order", "fleet_rollouts", ["created_at", "id"], unique=False)
    op.create_index(
        "fleet_rollouts_one_active",
        "fleet_rollouts",
        ["section", "subject", "group_name"],
        unique=True,
        sqlite_where=sa.text("active = 1"),
        postgresql_where=sa.text("active"),
    )
    op.create_table(
        "fleet_tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.Float(precision=53), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("fleet_tokens_end", "fleet_tokens", ["expires_at"], unique=False)
