"""Damage to files: every kind that streambits writes, changed at random, then used.

A file that was changed must be refused with one of our errors, or all answers must be the same as
before. STREAMBITS_SLOW=1 makes 20,000 mutations of other seeds of 200.
"""
