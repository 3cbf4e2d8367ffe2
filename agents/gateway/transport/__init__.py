"""What HTTP brings: bodies and answers, limits of size, time and number, clients that stall."""
