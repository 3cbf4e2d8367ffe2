"""The index writer's rules: the order of its checks, and its account of bytes."""
