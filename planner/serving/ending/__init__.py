"""The end of a request, once, and the ids that have ended."""
