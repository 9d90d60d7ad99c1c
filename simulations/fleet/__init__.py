"""A whole fleet on virtual time: the real rollout and the real update machine of each device, a network
that loses, delays, repeats and cuts, and a control plane that is killed; checkers hold the invariants.
"""
