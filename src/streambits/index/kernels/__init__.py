"""The only numba in the project: what BLAS cannot do.

Codes come as planes (words of a code, places) of 64-bit words: word w of all codes lies together,
so every loop over places runs over contiguous memory and the compiler turns it into vector
instructions. Places are in the order of ids, so the first of equal distances has the smaller id.
Compiled on the first call, kept on disk for the next process; no kernel holds the interpreter.
"""
