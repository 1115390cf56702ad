"""Evaluation: how good codes are, on data and against the truth."""
