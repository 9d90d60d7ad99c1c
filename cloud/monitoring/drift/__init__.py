"""Whether the field still looks like what a model was calibrated on. Pure."""
