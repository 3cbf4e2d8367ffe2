"""What approximate caching needs of prompts while requests are served: the facts that they state."""
