"""Runs migrations on the connection that ``Database`` hands over, or on a fresh file for ``alembic revision``."""

import sqlalchemy as sa
from alembic import context

from deepedu.store.tables import Base

connection: sa.Connection | None = context.config.attributes.get("connection")
if connection is None:
    connection = sa.create_engine("sqlite://").connect()
# Batch mode copies a table where SQLite cannot alter it in place.
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
context.run_migrations()
