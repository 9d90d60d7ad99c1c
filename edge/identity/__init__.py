"""Who this device is: its key and certificate, how it gets them and renews them.

`schedule` and `clock` decide and are pure; `files` keeps, `enrol` and `renewing` ask the region.
"""
