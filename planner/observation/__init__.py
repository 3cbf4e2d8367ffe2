"""The planner's view of the pipeline, and the demand that it expects."""
