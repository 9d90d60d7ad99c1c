"""How the fleet's tables came to be: one file for each change, applied in order by alembic."""
