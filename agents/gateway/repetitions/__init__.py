"""Requests that come again: which they repeat, so that nothing is generated twice for them."""
