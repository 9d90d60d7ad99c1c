"""New versions of the model onto this device: fetched, checked, tried, swapped in, taken back.

`machine.py`, `choice.py`, `compatible.py`, `windows.py`, `trial.py`, `plan.py` and `starting.py`
decide; the others act. The active model answers throughout.
"""
