"""Settings: how a stream is learned, declared once.

A field here is a setting of jobs, an option of the command line, a parameter of the scikit-learn
adapter and something that `tune` may vary; the method accepts it as an argument of the same name.
So a new setting is two edits: the method, and a line here.
"""

import logging
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, as_choice, as_rows, is_rows, to_numpy
from streambits.errors import InputError
from streambits.features import centres, nearest
from streambits.methods import METHODS, Method
from streambits.methods.choose import choose_features
from streambits.methods.method import BITS
from streambits.model.codes import MOST_BITS, as_bits
from streambits.model.learner import Learner
from streambits.model.metric import COSINE, EUCLIDEAN, INNER, unit_rows
from streambits.model.quantiser import MOST_BYTES
from streambits.model.rotations import ROTATIONS
from streambits.model.sampling import reservoir
from streambits.sketches import PRECISIONS

AUTO = "auto"
REPLACED = {  # methods of version 0.2 that are in paper/methods now, and what to use instead
    "rff_fd": "ssbc",
    "osh": "linear",
    "frosh": "linear",
    "unifdiag": "linear with the rotation 'uniform'",
}
LANDMARKS_BY = ("uniform", "centres")
SHARE = 10  # first rows for each landmark that is drawn from them
logger = logging.getLogger("streambits")
REFERENCE = 1000  # further rows, by which a stream is judged where landmarks are centres


def _setting(default: Any, text: str, **limits: Any) -> Any:
    """A field with its help; limits: least, most, choices, or words allowed beside a number."""
    return field(default=default, metadata={"help": text, **limits})


@dataclass(frozen=True, kw_only=True)
class MethodSettings:
    """Settings that methods accept; None leaves a setting to the method.

    Parameters
    ----------
    epochs, half_life, bandwidth, whitening, rotation, epsilon, refine, certified, precision
        As for `ssbc`; the metadata of each field has a help text and its limits.
    """

    epochs: str | int | None = _setting(
        None,
        "When codes begin anew, on new landmarks: auto, never, or a number of rows.",
        words=("auto", "never"),
        least=1,
    )
    half_life: float | None = _setting(
        None,
        "Rows after which a row counts half. Default: never.",
    )
    bandwidth: float | None = _setting(
        None,
        "Kernel bandwidth b in exp(-distance^2 / b). Default: by the landmarks.",
    )
    whitening: float | None = _setting(
        None,
        "How much strong directions are damped, 0 to 1. Default: by the method.",
        least=0,
        most=1,
    )
    rotation: str | None = _setting(
        None,
        "How directions become bits: none, random, itq, or uniform. Default: by the method.",
        choices=tuple(ROTATIONS),
    )
    epsilon: float | None = _setting(
        None,
        "The sketch has bits + bits / epsilon rows. Default: 1.",
    )
    refine: int | None = _setting(
        None,
        "Bytes beside the bits, by which searches rank. Default: 8 for product, else 0.",
        least=0,
        most=MOST_BYTES,
    )
    certified: bool | None = _setting(
        None,
        "Add a byte that bounds the error, for answers that are proven.",
    )
    precision: str | None = _setting(
        None,
        "Precision of sums: auto, double, single, or tf32 (on GPUs).",
        choices=("auto", *PRECISIONS),
    )

    def arguments(self) -> dict[str, Any]:
        """Return the settings of the method that are not left to it, by name."""
        held = {f.name: getattr(self, f.name) for f in fields(MethodSettings)}
        return {name: value for name, value in held.items() if value is not None}


@dataclass(frozen=True)
class Settings(MethodSettings):
    """How a stream is learned, from its first row on.

    Parameters
    ----------
    bits : int, default 64
        Length of the codes.
    method : str, default "auto"
        One of `METHODS`, or "auto": `ssbc` or `linear`, whichever finds more true neighbours among
        the first rows (`choose_features`); `ssbc` where a setting is set that only it has.
    n_landmarks : int, default 500
        Number of landmarks, drawn from the first 10 times as many rows.
    landmarks_by : {"uniform", "centres"}
        Whether the first landmarks are drawn at random, or are k-means centres.
    bandwidth_factor : float, optional
        In place of a bandwidth, a multiple of `nearest(30)`.
    refresh : "auto" or int
        Rows between two coders of an online job: see `OnlineEncoder`.
    metric : {"euclidean", "cosine", "inner"}
        By what rows are near, while they are learned and searched: see `Method`.
    seed : int, default 0
    epochs, half_life, bandwidth, whitening, rotation, epsilon, refine, certified, precision
        Settings of the method (`MethodSettings`), by keyword.

    Examples
    --------
    >>> rows = np.random.default_rng(0).random((600, 8), dtype=np.float32)
    >>> settings = Settings(bits=16, n_landmarks=50)
    >>> settings.learner([rows]).learn(rows).coder().encode(rows[:2])
    Codes(2 x 16 bits, epoch 0)
    >>> print(settings)
    auto, bits 16, n_landmarks 50
    """

    bits: int = _setting(
        BITS, "Sign bits of a code; product codes have none.", least=1, most=MOST_BITS
    )
    method: str = _setting(
        AUTO,
        "How codes are learned. auto: ssbc or linear, by the first rows.",
        choices=(AUTO, *METHODS),
    )
    n_landmarks: int = _setting(
        500,
        "Landmarks, drawn from the first 10 times as many rows.",
        least=1,
    )
    landmarks_by: str = _setting(
        "uniform",
        "First landmarks: uniform (at random), or centres (k-means).",
        choices=LANDMARKS_BY,
    )
    bandwidth_factor: float | None = _setting(
        None,
        "Multiple of the estimated bandwidth, instead of a bandwidth.",
    )
    refresh: str | int = _setting(
        "auto",
        "Rows between two coders. auto: when rows have doubled, then every 65,536.",
        words=("auto",),
        least=1,
    )
    metric: str = _setting(
        EUCLIDEAN,
        "What near means: euclidean, cosine, or inner (with refine).",
        choices=(EUCLIDEAN, COSINE, INNER),
    )
    seed: int = _setting(0, "Random seed.", least=0)

    @property
    def gathered(self) -> int:
        """Number of rows gathered for landmarks, and for the reference by which `epochs` judges."""
        return SHARE * self.n_landmarks + (REFERENCE if self.landmarks_by == "centres" else 0)

    @property
    def sign_bits(self) -> int:
        """Sign bits of a code: `bits`, or 0 where the method has none."""
        return self.bits if self._method().signs else 0

    @property
    def refinement_bytes(self) -> int:
        """Bytes of a code beside its sign bits, that of the error included."""
        default = self._method().settings["refine"].default
        return int(default if self.refine is None else self.refine) + bool(self.certified)

    def resolved(self, rows: list[NDArray[Any]]) -> "Settings":
        """Return the same settings with a method in place of "auto", by the first rows."""
        if self.method != AUTO:
            return self
        kernel = self.bandwidth, self.bandwidth_factor, self.epsilon
        if any(value is not None for value in kernel) or self.landmarks_by != "uniform":
            return replace(self, method="ssbc")
        first = np.concatenate(rows)[: self.gathered]
        choice = choose_features(
            first,
            self.bits,
            n_landmarks=self.n_landmarks,
            refine=self.refinement_bytes,
            seed=self.seed,
        )
        logger.info("method auto: %s (%s)", choice.method, choice.reason)
        return replace(self, method=choice.method)

    def checked(self) -> "Settings":
        """Return the same settings with the method's own defaults filled in.

        With "auto" they stay open, as they depend on the method.

        A learner of two rows is built with them, so an error is raised before anything is read.

        Raises
        ------
        InputError
            If the method does not accept a setting or its value, or cannot have so many bits.
        """
        if self.method == AUTO:
            replace(self, method="ssbc").checked()
            return self
        method = self._method()
        bits = as_bits(self.bits) if method.signs else 0
        refusal = method.refusal(bits, landmarks=self.n_landmarks, columns=bits)
        if refusal:
            raise InputError(
                f"bits is {bits}, and {self.method} has {refusal}; ask for fewer, or for more "
                f"landmarks"
            )
        parameters = method.settings
        own = {name: p.default for name, p in parameters.items() if name in self._unset()}
        if "epochs" not in parameters and self.epochs == "never":
            own["epochs"] = None
        filled = replace(self, bits=bits, **own)
        replace(filled, bits=1).learner([np.eye(2)[: self.n_landmarks]])
        return filled

    def learner(self, rows: Array | list[Array]) -> Learner:
        """Build a learner with landmarks from the first rows of a stream.

        Parameters
        ----------
        rows : array of shape (n, d), or list of such arrays
            Best `gathered` rows together; all of them are landmarks if they are few.

        Returns
        -------
        Learner
        """
        rows = [rows] if is_rows(rows) else list(rows)
        if self.metric == COSINE:
            rows = [to_numpy(unit_rows(as_rows(some))) for some in rows]
        settings, more = self.resolved(rows), {}
        if self.landmarks_by == "centres" and self.epochs != "never":
            later = np.concatenate(rows)[SHARE * self.n_landmarks :]
            more["reference"] = later if len(later) >= REFERENCE else np.concatenate(rows)
        elif "reference" in settings._method().settings:
            more["reference"] = np.concatenate(rows)
        return settings.build(settings._landmarks(rows), **more)

    def build(self, landmarks: Array, **more: Any) -> Learner:
        """Build a learner from its landmarks.

        Parameters
        ----------
        landmarks : array of shape (m, d)
        **more
            Further arguments of the method.

        Returns
        -------
        Learner

        Raises
        ------
        InputError
            If both `bandwidth` and `bandwidth_factor` are set.
        """
        if self.method == AUTO:
            return self.resolved([landmarks]).build(landmarks, **more)
        arguments = self.arguments() | more
        if self.bandwidth_factor is not None:
            if self.bandwidth is not None:
                raise InputError(
                    f"bandwidth is {self.bandwidth:g} and bandwidth_factor "
                    f"{self.bandwidth_factor:g}: give one of them"
                )
            arguments["bandwidth"] = self.bandwidth_factor * nearest(30)
        arguments |= {"seed": self.seed, "metric": self.metric}
        return self._method()(landmarks, self.bits, **arguments)

    def plain(self) -> dict[str, Any]:
        """Return all settings as a dictionary of plain values, for a file.

        The usual metric is left out, as in files from before there were others.
        """
        plain = asdict(self)
        return {k: v for k, v in plain.items() if (k, v) != ("metric", EUCLIDEAN)}

    def differences(self) -> dict[str, Any]:
        """Return the method, the bits, and whatever differs from the defaults."""
        first: dict[str, Any] = {"method": self.method, "bits": self.bits}
        usual = asdict(Settings(**first))
        return first | {name: v for name, v in asdict(self).items() if v != usual[name]}

    def _unset(self) -> set[str]:
        return {f.name for f in fields(MethodSettings)} - self.arguments().keys()

    def _method(self) -> Method:
        """The method; of "auto" the one that it is without a reason for another."""
        if self.method in REPLACED:
            raise InputError(
                f"method {self.method!r} is not in streambits since version 0.3, but in "
                f"paper/methods of its repository: use {REPLACED[self.method]}"
            )
        name = as_choice(self.method, "method", (AUTO, *METHODS))
        return METHODS["ssbc" if name == AUTO else name]

    def _landmarks(self, rows: list[NDArray[Any]]) -> Array:
        count = min(self.n_landmarks, sum(map(len, rows)))
        if as_choice(self.landmarks_by, "landmarks_by", LANDMARKS_BY) == "uniform":
            return reservoir(rows, count, seed=self.seed)
        if self._method().limit != "landmarks":
            raise InputError(
                f"landmarks_by is 'centres', and {self.method} has no landmarks: "
                f"leave it out, or use ssbc"
            )
        first = np.concatenate(rows, dtype=np.float64)[: SHARE * self.n_landmarks]
        return centres(first, count, seed=self.seed)

    def __str__(self) -> str:
        words = [f"{name} {_shown(value)}" for name, value in self.differences().items()]
        return ", ".join([self.method, *words[1:]])


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
