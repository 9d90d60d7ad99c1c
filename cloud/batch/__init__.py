"""The same bundle without a caller who waits: offline over a folder, near-line in windows."""
