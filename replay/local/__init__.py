"""A deployment on this machine: processes of roles, their settings, and when they can serve."""
