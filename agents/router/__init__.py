"""The router role: which level and which worker a request goes to."""
