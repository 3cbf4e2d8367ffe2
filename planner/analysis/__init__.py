"""Analyses of plans, afterwards or in theory; no plan depends on them."""
