"""Access control: keys that sign in, sessions, roles, and checks before every page."""
