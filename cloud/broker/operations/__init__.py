"""What an operator sees and does: `$SYS`, metrics, status, sessions, kick."""
