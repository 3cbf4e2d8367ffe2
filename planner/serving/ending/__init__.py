"""How a request ends, once, and which ids have ended."""
