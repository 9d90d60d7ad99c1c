"""Tests of simulations/fleet."""
