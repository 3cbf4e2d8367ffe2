"""Files that deployments need: broker jars, default settings, shipped models."""
