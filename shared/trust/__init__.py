"""What a device needs to believe a release: TUF metadata, checked, kept and used offline.

`names.py`, `profile.py`, `walk.py` and `releases.py` decide; `store.py` keeps files and fetches.
tuf and cryptography are loaded by the first `TrustStore`, not by this import: a device without
updates never pays for them.
"""
