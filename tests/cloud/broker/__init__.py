"""Tests of cloud.broker."""
