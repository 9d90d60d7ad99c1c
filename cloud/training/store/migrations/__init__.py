"""How the tables of training came to be: one file for each change, applied in order by alembic."""
