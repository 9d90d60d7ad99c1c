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
        "training_artifacts",
        sa.Column("job", sa.String(length=80), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", "name"),
    )
    op.create_index("training_artifacts_by_hash", "training_artifacts", ["sha256"], unique=False)
    op.create_table(
        "training_jobs",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("team", sa.String(length=64), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("cpus", sa.Integer(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("submitted_by", sa.String(length=200), nullable=False),
        sa.Column("submitted_at", sa.Float(precision=53), nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("due_at", sa.Float(precision=53), nullable=False),
        sa.Column("since", sa.Float(precision=53), nullable=False),
        sa.Column("owner", sa.String(length=32), nullable=True),
        sa.Column("worker", sa.String(length=64), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("stop", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("preemptions", sa.Integer(), nullable=False),
        sa.Column("preempted_at", sa.Float(precision=53), nullable=True),
        sa.Column("began_at", sa.Float(precision=53), nullable=True),
        sa.Column("started_at", sa.Float(precision=53), nullable=True),
        sa.Column("ended_at", sa.Float(precision=53), nullable=True),
        sa.Column("worked_s", sa.Float(precision=53), nullable=False),
        sa.Column("progress", sa.Float(precision=53), nullable=False),
        sa.Column("why", sa.String(length=1000), nullable=False),
        sa.Column("bundle", sa.String(length=100), nullable=True),
        sa.Column("bundle_sha256", sa.String(length=64), nullable=True),
        sa.Column("checkpoint", sa.String(length=64), nullable=True),
        sa.Column("checkpoint_name", sa.String(length=100), nullable=True),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("training_jobs_by_state", "training_jobs", ["state", "seq"], unique=False)
    op.create_index("training_jobs_ended", "training_jobs", ["ended_at"], unique=False)
    op.create_index("training_jobs_of_team", "training_jobs", ["team", "seq"], unique=False)
    op.create_index(
        "training_jobs_same_key_same_job",
        "training_jobs",
        ["submitted_by", "idempotency_key"],
        unique=True,
        sqlite_where=sa.text("idempotency_key IS NOT NULL"),
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_table(
        "training_logs",
        sa.Column("job", sa.String(length=80), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Float(precision=53), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", "seq"),
    )
    op.create_table(
        "training_points",
        sa.Column("job", sa.String(length=80), nullable=False),
        sa.Column("metric", sa.String(length=64), nullable=False),
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Float(precision=53), nullable=False),
        sa.Column("at", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("job", "metric", "step"),
    )
    op.create_index("training_points_by_step", "training_points", ["job", "step"], unique=False)
    op.create_table(
        "training_quotas",
        sa.Column("team", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("team"),
    )
    op.create_table(
        "training_runs",
        sa.Column("job", sa.String(length=80), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("data_set", sa.String(length=64), nullable=True),
        sa.Column("code_version", sa.String(length=200), nullable=False),
        sa.Column("machine", sa.String(length=500), nullable=False),
        sa.Column("started_at", sa.Float(precision=53), nullable=False),
        sa.Column("ended_at", sa.Float(precision=53), nullable=True),
        sa.Column("figures", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job"),
    )
    op.create_table(
        "training_workers",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("cpus", sa.Integer(), nullable=False),
        sa.Column("seen_at", sa.Float(precision=53), nullable=False),
        sa.Column("kept_apart_by", sa.String(length=500), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    # ### end Alembic commands ###
