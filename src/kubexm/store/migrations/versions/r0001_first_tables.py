"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """To this form."""
    op.create_table(
        "audit",
        sa.Column("n", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("outcome", sa.String(length=64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("n", name=op.f("pk_audit")),
    )
    op.create_table(
        "clusters",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
        sa.UniqueConstraint("name", name=op.f("uq_clusters_name")),
    )
    op.create_table(
        "events",
        sa.Column("task", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("seq", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task", "seq", name=op.f("pk_events")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "facts",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "host", name=op.f("pk_facts")),
    )
    op.create_table(
        "files",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name", name=op.f("pk_files")),
    )
    op.create_table(
        "graphs",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_graphs")),
    )
    op.create_table(
        "host_results",
        sa.Column("task", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("seq", _NUMBER, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("root_node", sa.Text(), nullable=False),
        sa.Column("root_host", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task", "node", "host", name=op.f("pk_host_results")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "idempotency",
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("token", "key", name=op.f("pk_idempotency")),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
    )
    op.create_table(
        "node_results",
        sa.Column("task", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("tally", sa.Text(), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("task", "node", name=op.f("pk_node_results")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "plans",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("pipeline", sa.String(length=32), nullable=False),
        sa.Column("spec_version", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("offline", sa.Boolean(), nullable=False),
        sa.Column("changes", sa.Boolean(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("units", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plans")),
    )
    op.create_index(op.f("ix_plans_cluster"), "plans", ["cluster"], unique=False)
    op.create_table(
        "secrets",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name", name=op.f("pk_secrets")),
    )
    op.create_table(
        "step_logs",
        sa.Column("task", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("seq", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("stdout", sa.Text(), nullable=False),
        sa.Column("stderr", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("task", "seq", name=op.f("pk_step_logs")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_step_logs_task_node_host", "step_logs", ["task", "node", "host"], unique=False)
    op.create_table(
        "tasks",
        sa.Column("n", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("pipeline", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("changes", sa.Boolean(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("spec_version", sa.Integer(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("resumed", sa.Integer(), nullable=False),
        sa.Column("seq", _NUMBER, nullable=False),
        sa.Column("units", sa.Integer(), nullable=False),
        sa.Column("tally", sa.Text(), nullable=False),
        sa.Column("graph", sa.String(length=64), nullable=False),
        sa.Column("plan", sa.String(length=64), nullable=False),
        sa.Column("bytes", _NUMBER, nullable=False),
        sa.Column("kept", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("n", name=op.f("pk_tasks")),
        sa.UniqueConstraint("id", name=op.f("uq_tasks_id")),
    )
    op.create_index("ix_tasks_cluster_n", "tasks", ["cluster", "n"], unique=False)
    op.create_index("ix_tasks_kept", "tasks", ["kept"], unique=False)
    op.create_index("ix_tasks_state_n", "tasks", ["state", "n"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.Column("revoked", sa.Double(), nullable=True),
        sa.Column("used", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
    op.create_table(
        "cluster_specs",
        sa.Column("cluster", _NUMBER, nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("edits", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster"], ["clusters.id"], name=op.f("fk_cluster_specs_cluster"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("cluster", "version", name=op.f("pk_cluster_specs")),
    )
    op.create_table(
        "grants",
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(["token"], ["tokens.id"], name=op.f("fk_grants_token"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("token", "cluster", name=op.f("pk_grants")),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["token"], ["tokens.id"], name=op.f("fk_sessions_token"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sessions")),
    )


def downgrade() -> None:
    """Back to nothing."""
    op.drop_table("sessions")
    op.drop_table("grants")
    op.drop_table("cluster_specs")
    op.drop_table("tokens")
    op.drop_index("ix_tasks_state_n", table_name="tasks")
    op.drop_index("ix_tasks_kept", table_name="tasks")
    op.drop_index("ix_tasks_cluster_n", table_name="tasks")
    op.drop_table("tasks")
    op.drop_index("ix_step_logs_task_node_host", table_name="step_logs")
    op.drop_table("step_logs")
    op.drop_table("secrets")
    op.drop_index(op.f("ix_plans_cluster"), table_name="plans")
    op.drop_table("plans")
    op.drop_table("node_results")
    op.drop_table("meta")
    op.drop_table("idempotency")
    op.drop_table("host_results")
    op.drop_table("graphs")
    op.drop_table("files")
    op.drop_table("facts")
    op.drop_table("events")
    op.drop_table("clusters")
    op.drop_table("audit")
