"""How the loops' tables came to be: one file for each change, applied in order by alembic."""
