"""What any plan is worth, and the best plan of one program: the core of `joint`."""
