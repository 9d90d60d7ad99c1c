"""Tests of cloud.broker.shell."""
