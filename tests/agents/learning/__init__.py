"""Tests of agents/learning."""
