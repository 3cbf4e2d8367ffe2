"""Tests of agents/learning/discriminators."""
