"""Every table of the store, as data. What may be asked of them is in the modules beside this one.

Times are seconds since 1970, as in events. `task` is the number of a task, not its id: it stands in millions of rows.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

__all__ = [
    "METADATA",
    "audit",
    "cluster_specs",
    "clusters",
    "events",
    "facts",
    "files",
    "grants",
    "graphs",
    "host_results",
    "idempotency",
    "meta",
    "node_results",
    "plans",
    "secrets",
    "sessions",
    "step_logs",
    "tasks",
    "tokens",
]

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
Number = BigInteger().with_variant(Integer, "sqlite")  # only so does SQLite number rows by itself
Name = Text

meta = Table("meta", METADATA, Column("name", String(64), primary_key=True), Column("value", Text, nullable=False))

clusters = Table(
    "clusters",
    METADATA,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("name", Name, nullable=False, unique=True),
    Column("version", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("created", Double, nullable=False),
    Column("created_by", Name, nullable=False),
    Column("updated", Double, nullable=False),
)
cluster_specs = Table(
    "cluster_specs",
    METADATA,
    Column("cluster", Number, ForeignKey("clusters.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("created_by", Name, nullable=False),
    Column("note", Text, nullable=False),
    Column("edits", Text, nullable=False),
)
secrets = Table(
    "secrets",
    METADATA,
    Column("cluster", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("created", Double, nullable=False),
    Column("created_by", Name, nullable=False),
)
files = Table(
    "files",
    METADATA,
    Column("cluster", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("size", Integer, nullable=False),
    Column("created", Double, nullable=False),
    Column("created_by", Name, nullable=False),
)
facts = Table(
    "facts",
    METADATA,
    Column("cluster", Name, primary_key=True),
    Column("host", Name, primary_key=True),
    Column("time", Double, nullable=False),
    Column("facts", Text, nullable=False),
    Column("error", Text, nullable=False),
)

tasks = Table(
    "tasks",
    METADATA,
    Column("n", Number, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("cluster", Name, nullable=False),
    Column("action", String(32), nullable=False),
    Column("pipeline", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("changes", Boolean, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("request", Text, nullable=False),
    Column("spec_version", Integer, nullable=False),
    Column("actor", Name, nullable=False),
    Column("created", Double, nullable=False),
    Column("started", Double),
    Column("ended", Double),
    Column("error", Text, nullable=False),
    Column("resumed", Integer, nullable=False),
    Column("seq", Number, nullable=False),
    Column("units", Integer, nullable=False),
    Column("tally", Text, nullable=False),
    Column("graph", String(64), nullable=False),
    Column("plan", String(64), nullable=False),
    Column("bytes", Number, nullable=False),
    Column("kept", Boolean, nullable=False),
    Index("ix_tasks_cluster_n", "cluster", "n"),
    Index("ix_tasks_state_n", "state", "n"),
    Index("ix_tasks_kept", "kept"),
)
events = Table(
    "events",
    METADATA,
    Column("task", Number, primary_key=True, autoincrement=False),
    Column("seq", Number, primary_key=True, autoincrement=False),
    Column("time", Double, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("node", Name, nullable=False),
    Column("host", Name, nullable=False),
    Column("data", Text, nullable=False),
    sqlite_with_rowid=False,
)
step_logs = Table(
    "step_logs",
    METADATA,
    Column("task", Number, primary_key=True, autoincrement=False),
    Column("seq", Number, primary_key=True, autoincrement=False),
    Column("node", Name, nullable=False),
    Column("host", Name, nullable=False),
    Column("state", String(16), nullable=False),
    Column("stdout", Text, nullable=False),
    Column("stderr", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("started", Double),
    Column("ended", Double),
    Index("ix_step_logs_task_node_host", "task", "node", "host"),
    sqlite_with_rowid=False,
)
host_results = Table(
    "host_results",
    METADATA,
    Column("task", Number, primary_key=True, autoincrement=False),
    Column("node", Name, primary_key=True),
    Column("host", Name, primary_key=True),
    Column("seq", Number, nullable=False),
    Column("state", String(16), nullable=False),
    Column("started", Double),
    Column("ended", Double),
    Column("attempts", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("root_node", Name, nullable=False),
    Column("root_host", Name, nullable=False),
    Column("more", Text, nullable=False),
    sqlite_with_rowid=False,
)
node_results = Table(
    "node_results",
    METADATA,
    Column("task", Number, primary_key=True, autoincrement=False),
    Column("node", Name, primary_key=True),
    Column("state", String(16), nullable=False),
    Column("tally", Text, nullable=False),
    Column("started", Double),
    Column("ended", Double),
    sqlite_with_rowid=False,
)
graphs = Table(
    "graphs",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
plans = Table(
    "plans",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("cluster", Name, nullable=False, index=True),
    Column("pipeline", String(32), nullable=False),
    Column("spec_version", Integer, nullable=False),
    Column("created", Double, nullable=False),
    Column("created_by", Name, nullable=False),
    Column("offline", Boolean, nullable=False),
    Column("changes", Boolean, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("units", Integer, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("body", LargeBinary, nullable=False),
)

tokens = Table(
    "tokens",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("name", Name, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("created", Double, nullable=False),
    Column("created_by", Name, nullable=False),
    Column("expires", Double),
    Column("revoked", Double),
    Column("used", Double),
)
grants = Table(
    "grants",
    METADATA,
    Column("token", String(32), ForeignKey("tokens.id", ondelete="CASCADE"), primary_key=True),
    Column("cluster", Name, primary_key=True),
    Column("role", String(16), nullable=False),
)
sessions = Table(
    "sessions",
    METADATA,
    Column("hash", String(64), primary_key=True),
    Column("token", String(32), ForeignKey("tokens.id", ondelete="CASCADE"), nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
)
idempotency = Table(
    "idempotency",
    METADATA,
    Column("token", String(32), primary_key=True),
    Column("key", Name, primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("created", Double, nullable=False),
    Column("status", Integer),
    Column("headers", Text, nullable=False),
    Column("body", Text, nullable=False),
)
audit = Table(
    "audit",
    METADATA,
    Column("n", Number, primary_key=True, autoincrement=False),
    Column("time", Double, nullable=False),
    Column("actor", Name, nullable=False),
    Column("address", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("outcome", String(64), nullable=False),
    Column("detail", Text, nullable=False),
    Column("hash", String(64), nullable=False),
)
