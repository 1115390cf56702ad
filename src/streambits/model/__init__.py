"""The model: what learns, what it hands out, and what both are made of."""
