"""Epochs: when codes stop to compare, and how to search all of them."""
