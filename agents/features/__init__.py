"""Features that stand beside the roles: their records are in `planner/serving/features.py`."""
