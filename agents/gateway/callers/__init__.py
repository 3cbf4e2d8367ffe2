"""Who asks: the key that a request carries, the tenant whose it is, and what that may do."""
