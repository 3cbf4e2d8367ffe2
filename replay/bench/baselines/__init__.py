"""What the benches compare with."""
