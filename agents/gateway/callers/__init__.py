"""Authentication: the key of a request, its tenant, and the scopes that it grants."""
