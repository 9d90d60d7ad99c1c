"""The HTTP API of a fleet: one table of routes, who may use each, and what comes in checked."""
