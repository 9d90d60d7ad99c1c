"""What each training run was, measured and left behind."""
