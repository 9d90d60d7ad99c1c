"""New versions of the model onto this device: fetched, checked, tried, swapped in, taken back.

`machine.py`, `following.py`, `transitions.py`, `choice.py`, `compatible.py`, `windows.py`, `trial.py`,
`shadow_tally.py`, `missing.py`, `fleet_view.py`, `plan.py` and `starting.py` decide; the others act.
The active model answers throughout.
"""
