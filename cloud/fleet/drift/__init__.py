"""Drift in the control plane: telemetry in, alarms kept, said and closed."""
