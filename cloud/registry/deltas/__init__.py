"""Deltas between two versions' files, for devices that have the older one (`shared/delta`)."""
