"""Tests of cloud.broker.store."""
