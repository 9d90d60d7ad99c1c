"""Tests of cloud.broker.session."""
