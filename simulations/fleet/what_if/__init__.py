"""A recorded fleet log under another threshold, other criteria or another policy."""
