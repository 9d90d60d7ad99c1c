"""The tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From nothing."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "learning_loops",
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.Float(precision=53), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("model"),
    )
    op.create_table(
        "learning_cycles",
        sa.Column("number", number, nullable=False),
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("is_over", sa.Boolean(), nullable=False),
        sa.Column("learned_until", sa.Float(precision=53), nullable=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "learning_cycles_of_model", "learning_cycles", ["model", "is_over", "number"], unique=False
    )
    op.create_table(
        "learning_cycle_lines",
        sa.Column("seq", number, nullable=False),
        sa.Column("cycle", sa.String(length=80), nullable=False),
        sa.Column("at", sa.Float(precision=53), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index(
        "learning_cycle_lines_of_cycle", "learning_cycle_lines", ["cycle", "seq"], unique=False
    )
    op.create_table(
        "learning_checks",
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("model"),
    )
    op.create_table(
        "learning_refits",
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("at", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("model"),
    )
