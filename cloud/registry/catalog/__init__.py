"""Models, versions and their states: what may follow what, kept in one hash-chained log."""
