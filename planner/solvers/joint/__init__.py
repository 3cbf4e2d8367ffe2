"""The value of any plan, and the best plan of one program: the core of `joint`."""
