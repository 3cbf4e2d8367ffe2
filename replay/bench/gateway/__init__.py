"""What the gateway tells its clients, and what it costs them."""
