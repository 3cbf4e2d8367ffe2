"""Features that stand beside the roles: each module has one record, `FEATURE` (`planner/serving/features.py`)."""
