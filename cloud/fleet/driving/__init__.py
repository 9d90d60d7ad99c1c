"""What drives rollouts: the shell around `cloud/rollouts/machine.py`, which decides."""
