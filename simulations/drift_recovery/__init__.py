"""What fine-tuning on the field regains under each shift: real images, the real rule of what is sent,
the real training process; no broker and no clock. `python -m simulations.drift_recovery`.
"""
