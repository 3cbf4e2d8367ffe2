"""Benches of the gateway: the error of its predicted times, and what it costs."""
