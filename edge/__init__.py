"""The agent on a device: senses, answers at once, escalates what it is unsure of."""
