"""`make bench-serve`: the cloud's inference tier beside the servers its users would pick instead."""
