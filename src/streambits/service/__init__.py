"""The HTTP service over a `StreamIndex`, and its client. `streambits serve` runs it.

`Client` needs nothing but the standard library and NumPy; the server is behind the extra `serve`.
"""

from streambits.service.client import Client

__all__ = ["Client"]
