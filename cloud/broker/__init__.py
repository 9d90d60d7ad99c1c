"""The embedded MQTT broker: what a site with one cloud process uses instead of installing one.

Bytes come in at `shell`, become packets in `parser` and `decode`, are judged by `connection` (one
per network connection) against `session` (one per client) and `router` (all of them), and leave
through `encode`. Everything but `shell`, `launch` and `__main__` is pure: time and packets in,
packets and bytes out. `launch` is what the cloud process calls; it can also start Mosquitto or
point at a broker that somebody else runs.

It speaks MQTT 5.0 and 3.1.1 (OASIS texts; section numbers in docstrings are those of 5.0 unless
they say 3.1.1), QoS 0, 1 and 2.

Sessions, queued and retained messages live in memory only: they survive a client's reconnect, not
the broker's end. Their state is plain values (`session.Session`, `messages.Message`,
`retained.RetainedMessages.messages`) so that a store can be put beside them. There is no password
file and no ACL: it listens on the loopback address, or with mutual TLS.
"""
