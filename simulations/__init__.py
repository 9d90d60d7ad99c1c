"""The real cores on virtual time, and the benchmarks beside them."""
