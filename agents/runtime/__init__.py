"""Assembles, runs and stops the roles of a process, and holds the views that they share."""
