"""The registry's side of trust: keys, signed metadata made and checked, published, kept fresh.

`edits.py`, `acceptance.py` and `heads.py` decide; `keys.py`, `ceremony.py` and `staging.py` keep
files; `repository.py` publishes. What devices do with it is in `shared/trust`.
"""
