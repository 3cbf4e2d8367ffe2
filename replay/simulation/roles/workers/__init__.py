"""Simulated workers: their lives and work, the topics that they read, their heartbeats, the stores that they ask."""
