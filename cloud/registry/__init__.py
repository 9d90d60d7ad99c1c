"""The one baton between training, cloud and devices: which models there are, proved and signed."""
