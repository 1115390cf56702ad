"""Every method as a choice of parts; this file is the table to read first.

    code(x) = pack(sign(features(x) . directions . rotation - thresholds)) [+ refinement bytes]

| method             | features         | directions                         | rotation  |
|--------------------|------------------|------------------------------------|-----------|
| ssbc               | GaussianAffinity | auto, centred, half-whitened       | itq       |
| ssbc, paper=True   | GaussianAffinity | FrequentDirections, raw            | none      |
| linear             | Linear           | Gram, centred, any whitening       | any       |
| pcah, itq          | Linear           | linear, not whitened, one epoch    | none, itq |
| product            | Linear           | none: bytes, by a ProductQuantiser | none      |

The methods that these are compared with are in `paper/methods` of the repository.
"""

from streambits.methods.kernel import ssbc
from streambits.methods.linear import linear, product
from streambits.methods.method import Method

PLAIN = {"whitening": 0, "epochs": "never", "reference": None}
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("ssbc", ssbc, limit="landmarks"),
        Method("linear", linear, limit="columns"),
        Method("pcah", linear, limit="columns", preset=PLAIN | {"rotation": "none"}),
        Method("itq", linear, limit="columns", preset=PLAIN | {"rotation": "itq"}),
        Method("product", product, signs=False),
    )
}

__all__ = ["METHODS", "Method", "linear", "product", "ssbc"]
