"""Tests of the fleet's database."""
