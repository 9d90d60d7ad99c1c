"""Regions: replicas follow the home's log, one of them becomes home, and the old home is fenced."""
