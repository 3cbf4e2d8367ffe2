"""The ledger role: exactly one result for each request."""
