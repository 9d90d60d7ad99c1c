"""Everything in a region: broker, ingest, serving, feedback store, training recipes, commands."""
