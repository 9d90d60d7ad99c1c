"""What a region and its devices tell each other over MQTT: desired and reported state, telemetry."""
