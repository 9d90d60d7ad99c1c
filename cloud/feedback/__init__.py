"""What came back from the field: samples, labels by rank, immutable data sets, retention."""
