"""The planner role: what it sees, whether it leads, when it plans, and what it publishes."""
