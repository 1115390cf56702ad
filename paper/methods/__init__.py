"""All methods that are compared, by name: those of the package, and their rivals.

    code(x) = pack(sign(features(x) . directions . rotation - thresholds))

| rival              | features         | directions                        | rotation | streams |
|--------------------|------------------|-----------------------------------|----------|---------|
| nystrom            | GaussianAffinity | the landmarks' own Gram, fixed    | none     | no      |
| exact_d, exact_r   | GaussianAffinity | Gram, every point a landmark      | none, random | no  |
| rff_fd             | Cosines          | auto, centred, half-whitened      | itq      | yes     |
| osh                | Linear           | FrequentDirections, centred       | random   | yes     |
| frosh              | Linear           | HadamardDirections, centred       | random   | yes     |
| unifdiag           | Linear           | Gram, centred                     | uniform  | yes     |
| semi_supervised    | Linear           | SupervisedGram (labels), centred  | none     | yes     |
| lsh                | Linear           | Fixed (random)                    | none     | no      |
| lsbc, e2lsh, sh    | Cosines          | Fixed (identity)                  | none     | no      |
| ssh, mdsh          | Eigenfunctions   | Fixed (identity; ssh: or of labels) | none   | no      |
| spherical          | Spheres          | Fixed (identity)                  | none     | no      |
| supervised_ibp     | GaussianAffinity | Fixed (regressions on latent bits of labels) | none | no |

Importing this package makes their parts loadable: `streambits.load` then reads their models.
"""

from paper.methods.features import Cosines, Eigenfunctions, Spheres
from paper.methods.fixed import e2lsh, lsbc, lsh, mdsh, sh, spherical, ssh
from paper.methods.kernel import exact_d, exact_r, nystrom, rff_fd
from paper.methods.latent import supervised_ibp
from paper.methods.linear import frosh, osh, semi_supervised, unifdiag
from paper.methods.method import Compared
from paper.methods.sketches import Fixed, HadamardDirections, SupervisedGram
from streambits import methods
from streambits.storage import register

METHODS: dict[str, Compared] = {
    **{name: Compared(**vars(method)) for name, method in methods.METHODS.items()},
    **{
        method.name: method
        for method in (
            Compared("rff_fd", rff_fd),
            Compared("nystrom", nystrom, streams=False, limit="landmarks"),
            Compared("exact_d", exact_d, streams=False, limit="landmarks", most_rows=4000),
            Compared("exact_r", exact_r, streams=False, limit="landmarks", most_rows=4000),
            Compared("osh", osh, limit="columns"),
            Compared("frosh", frosh, limit="columns"),
            Compared("unifdiag", unifdiag, limit="columns"),
            Compared("semi_supervised", semi_supervised, limit="columns"),
            Compared("lsh", lsh, streams=False),
            Compared("lsbc", lsbc, streams=False),
            Compared("e2lsh", e2lsh, streams=False),
            Compared("sh", sh, streams=False),
            Compared("ssh", ssh, streams=False),
            Compared("mdsh", mdsh, streams=False, distance="product"),
            Compared("spherical", spherical, streams=False, distance="spherical"),
            Compared("supervised_ibp", supervised_ibp, streams=False),
        )
    },
}
for kind in (Cosines, Eigenfunctions, Fixed, HadamardDirections, Spheres, SupervisedGram):
    register(kind)

__all__ = [
    "METHODS",
    "Compared",
    "e2lsh",
    "exact_d",
    "exact_r",
    "frosh",
    "lsbc",
    "lsh",
    "mdsh",
    "nystrom",
    "osh",
    "rff_fd",
    "semi_supervised",
    "sh",
    "spherical",
    "ssh",
    "supervised_ibp",
    "unifdiag",
]
