"""Tests of cloud.broker.access."""
