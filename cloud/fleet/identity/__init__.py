"""The region's device CA, and who gets a certificate from it.

`enrolment` (tokens), `renewal` (present certificates), `csr` (what a device asks for) and `peers`
(what TLS says about the other end) decide and are pure; `ca` signs, with a key from a file.
"""
