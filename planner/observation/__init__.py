"""What the planner sees of the pipeline, and the demand that it expects."""
