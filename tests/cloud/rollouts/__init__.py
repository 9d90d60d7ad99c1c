"""Tests of cloud/rollouts."""
