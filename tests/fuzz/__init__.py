"""Damage to files: every kind that streambits writes, changed at random, then used.

A file that was changed must be refused with one of our errors, or all answers must be the same as
before. A longer run than that of the tests:

    PYTHONPATH=src:tests python -m fuzz --count 20000 --seed 1 --workers 2
"""
