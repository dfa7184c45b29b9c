"""Training loops and what they need of the world."""
