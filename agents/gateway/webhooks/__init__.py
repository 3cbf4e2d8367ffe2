"""Webhooks: what a prediction's tenant is told of it by HTTP, at an address of theirs."""
