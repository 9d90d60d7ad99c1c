"""Tests of cloud."""
