"""Every method as a choice of parts; this file is the table to read first.

    code(x) = pack(sign(features(x) . directions . rotation - thresholds)) [+ refinement bytes]

| method             | features         | directions                        | rotation | streams |
|--------------------|------------------|-----------------------------------|----------|---------|
| ssbc               | GaussianAffinity | auto, centred, half-whitened      | itq      | yes     |
| ssbc, paper=True   | GaussianAffinity | FrequentDirections, raw           | none     | yes     |
| nystrom            | GaussianAffinity | the landmarks' own Gram, fixed    | none     | no      |
| exact_d, exact_r   | GaussianAffinity | Gram, every point a landmark      | none, random | no  |
| rff_fd             | Cosines          | auto, centred, half-whitened      | itq      | yes     |
| osh                | Linear           | FrequentDirections, centred       | random   | yes     |
| frosh              | Linear           | HadamardDirections, centred       | random   | yes     |
| pcah, itq          | Linear           | Gram, centred                     | none, itq | yes    |
| unifdiag           | Linear           | Gram, centred                     | uniform  | yes     |
| linear             | Linear           | Gram, centred, any whitening      | any      | yes     |
| product            | Linear           | none: bytes, by a ProductQuantiser | none    | yes     |
| semi_supervised    | Linear           | SupervisedGram (labels), centred  | none     | yes     |
| lsh                | Linear           | Fixed (random)                    | none     | no      |
| lsbc, e2lsh, sh    | Cosines          | Fixed (identity)                  | none     | no      |
| ssh, mdsh          | Eigenfunctions   | Fixed (identity; ssh: or of labels) | none   | no      |
| spherical          | Spheres          | Fixed (identity)                  | none     | no      |
| supervised_ibp     | GaussianAffinity | Fixed (regressions on latent bits of labels) | none | no |
"""

from streambits.methods.fixed import e2lsh, lsbc, lsh, mdsh, sh, spherical, ssh
from streambits.methods.kernel import exact_d, exact_r, nystrom, rff_fd, ssbc
from streambits.methods.latent import supervised_ibp
from streambits.methods.linear import (
    frosh,
    itq,
    linear,
    osh,
    pcah,
    product,
    semi_supervised,
    unifdiag,
)
from streambits.methods.method import Method

METHODS: dict[str, Method] = {
    "ssbc": Method(ssbc, limit="landmarks"),
    "rff_fd": Method(rff_fd),
    "nystrom": Method(nystrom, streams=False, limit="landmarks"),
    "exact_d": Method(exact_d, streams=False, limit="landmarks", most_rows=4000),
    "exact_r": Method(exact_r, streams=False, limit="landmarks", most_rows=4000),
    "osh": Method(osh, limit="columns"),
    "frosh": Method(frosh, limit="columns"),
    "pcah": Method(pcah, limit="columns"),
    "itq": Method(itq, limit="columns"),
    "unifdiag": Method(unifdiag, limit="columns"),
    "linear": Method(linear, limit="columns"),
    "product": Method(product, signs=False),
    "semi_supervised": Method(semi_supervised, limit="columns"),
    "lsh": Method(lsh, streams=False),
    "lsbc": Method(lsbc, streams=False),
    "e2lsh": Method(e2lsh, streams=False),
    "sh": Method(sh, streams=False),
    "ssh": Method(ssh, streams=False),
    "mdsh": Method(mdsh, streams=False, distance="product"),
    "spherical": Method(spherical, streams=False, distance="spherical"),
    "supervised_ibp": Method(supervised_ibp, streams=False),
}

__all__ = [
    "METHODS",
    "Method",
    "e2lsh",
    "exact_d",
    "exact_r",
    "frosh",
    "itq",
    "linear",
    "lsbc",
    "lsh",
    "mdsh",
    "nystrom",
    "osh",
    "pcah",
    "product",
    "rff_fd",
    "semi_supervised",
    "sh",
    "spherical",
    "ssbc",
    "ssh",
    "supervised_ibp",
    "unifdiag",
]
