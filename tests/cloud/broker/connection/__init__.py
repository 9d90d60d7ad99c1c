"""Tests of cloud.broker.connection."""
