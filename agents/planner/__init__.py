"""The planner role: what it sees, whether it leads, when it plans, and what it publishes."""

ROLE = "planner"  # in metrics and on the records it writes
