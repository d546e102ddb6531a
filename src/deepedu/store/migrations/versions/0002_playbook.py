"""The playbook's history."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "playbook_deltas",
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("delta_id", sa.String(length=64), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("operations", sa.Text(), nullable=False),
        sa.Column("touched", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_playbook_deltas")),
        sa.UniqueConstraint("delta_id", name=op.f("uq_playbook_deltas_delta_id")),
    )


def downgrade() -> None:
    op.drop_table("playbook_deltas")
