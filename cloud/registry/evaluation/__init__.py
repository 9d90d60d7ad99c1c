"""Gates: what a version must show, measured on this machine beside the current release."""
