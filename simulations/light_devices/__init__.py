"""Devices without models: thousands in one process, over real MQTT, by the real documents."""
