"""MQTT deliveries: read, answer, store, and only then acknowledge. Mirrors `edge/uplink`."""
