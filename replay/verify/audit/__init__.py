"""Checks the promises of delivery on a deployment's topics: `pochade audit`, and the end of every run."""
