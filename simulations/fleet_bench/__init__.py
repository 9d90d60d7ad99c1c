"""2,000 connected devices on one control process; 100,000 on virtual time. `make bench-fleet`."""
