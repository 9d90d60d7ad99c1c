"""How models are made: data, networks, fitting, quantization, calibration, bundles. Needs `[train]`.

Runs in processes of its own (`make models`), never in the serving process.
"""
