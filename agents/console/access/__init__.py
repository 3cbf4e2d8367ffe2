"""Who may look and who may change: keys that sign in, sessions, roles, and what stands before every page."""
