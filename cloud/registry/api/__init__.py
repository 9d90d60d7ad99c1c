"""The HTTP API of a registry: one table of routes, who may use each, and what comes in checked."""
