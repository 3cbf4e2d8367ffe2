"""The rights of tenants: quotas, and each one's share where not all can be served."""
