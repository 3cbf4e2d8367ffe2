"""Injects faults: starts a deployment, sends numbered requests, causes faults meanwhile, then audits."""
