"""Benchmarks of speed. `python -m benchmarks` is the one table; all scripts use `timer`.

`core`, `search`, `refined` and `gpu` have the lines of that table, `growth` its exponents and
`shares` where the time goes; `report` draws it. The other scripts answer one question each.
"""
