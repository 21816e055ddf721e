"""What Alembic asks for when it migrates: the connection it is given, within the caller's transaction."""

from __future__ import annotations

from alembic import context

from kubexm.store.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,  # SQLite alters a table by copying it
    transactional_ddl=True,
)
context.run_migrations()
