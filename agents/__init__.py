"""The roles that run: each reads, decides with planner functions, writes."""
