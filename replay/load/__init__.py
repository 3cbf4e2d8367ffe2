"""Publishes a trace to a deployment at the trace's own pace, and reads how its requests ended."""
