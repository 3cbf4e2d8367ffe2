"""Readers of topics without a group, how they poll, what lies on topics, and how far groups and logs go."""
