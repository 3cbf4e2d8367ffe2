"""Members of consumer groups: how one begins, and how the cluster sees them."""
