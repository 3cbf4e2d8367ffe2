"""Phases of a worker's start, compiled code, and approximate caching: what the benches measure."""
