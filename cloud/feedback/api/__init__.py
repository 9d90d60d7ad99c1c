"""Routes of the feedback store: samples and their labels, data sets."""
