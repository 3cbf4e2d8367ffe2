"""Faults on purpose: a deployment of one's own, broken at while numbered requests run through it, then audited."""
