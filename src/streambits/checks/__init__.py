"""Checks: a conformance kit for features, sketches and learners of your own."""
