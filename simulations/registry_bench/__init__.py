"""`make bench-registry`: the registry beside what it could be compared with."""
