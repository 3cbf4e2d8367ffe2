"""Transactions, the end of a log whose writers are fenced, and the lease of the one planner that writes."""
