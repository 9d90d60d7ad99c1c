"""MQTT 5 over paho: a link that connects, stays connected, and counts. Used by both ends."""
