"""How the tables came about, step by step; Alembic brings any older database to the newest form."""
