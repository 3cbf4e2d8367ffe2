"""Programs and heuristics that compute plans, shared by the policies."""
