"""The program of `joint`: from what is observed to the problem as one value, and from its solution to a plan."""
