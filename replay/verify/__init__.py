"""Checks of a deployment: an audit of what lies on its topics, and faults on purpose."""
