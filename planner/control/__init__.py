"""Decisions of each planning period: a policy's proposal, the plan made of it, when to replan, what is carried over."""
