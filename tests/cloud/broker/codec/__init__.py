"""Tests of cloud.broker.codec."""
