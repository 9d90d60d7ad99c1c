"""Tests of cloud.broker.operations."""
