"""The scaling policy against a CPU threshold, on loads that a real worker has seen."""
