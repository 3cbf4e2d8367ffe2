"""Runs a role's logic as a Faust agent."""
