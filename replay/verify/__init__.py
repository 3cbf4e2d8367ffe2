"""Checks of a deployment: an audit of its topics and images, and injected faults."""
