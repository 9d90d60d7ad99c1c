"""Tests of simulations/drift_recovery."""
