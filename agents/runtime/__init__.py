"""How the roles of a process are put together, run and stopped, and what they share."""
