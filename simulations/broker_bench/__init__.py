"""`make bench-broker`: the embedded broker beside Mosquitto, under the same load in the same run.

`cells` says what is measured, `rounds` runs each cell on both brokers in turn, `report` makes rows
of it, `worker` is the clients' process, with the loads in `throughput`, `latency` and `standing`
and the connections in `connections`. `wire` (pure) packs and counts without parsing.
"""
