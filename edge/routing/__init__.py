"""Which samples the cloud is asked about, and what becomes of two answers."""
