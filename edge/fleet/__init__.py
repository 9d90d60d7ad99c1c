"""The agent in its fleet: desired state in, reported state and telemetry out."""
