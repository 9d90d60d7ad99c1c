"""Bytes to control packets and back: MQTT 5.0 and 3.1.1, both directions. Pure."""
