"""The model on this device: opened, checked, measured, and run."""
