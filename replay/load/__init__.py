"""A trace published to a deployment at its own pace, and what became of it."""
