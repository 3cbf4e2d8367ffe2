"""What is decided once a period: the proposal of a policy, what is made of it, when to plan anew, and what is kept."""
