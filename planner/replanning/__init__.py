"""When to plan anew, what of a plan stays where none can be made, and what binds in the one there is."""
