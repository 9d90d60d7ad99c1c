"""One suite for each seam, run against every implementation of it."""
