"""The paper's experiments, run again: `python -m paper quick | full`; not part of the wheel."""
