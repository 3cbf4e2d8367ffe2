"""Webhooks: events of a prediction, posted to an address that its tenant states."""
