"""Tests of cloud.broker.router."""
