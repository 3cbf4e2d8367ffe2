"""What is asked for of components: how often, how popular, with what, and what is worth loading ahead."""
