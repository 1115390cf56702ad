"""Every exception that streambits raises on purpose.

All derive from `StreambitsError`; those about values also derive from `ValueError`, so code
written for scikit-learn or NumPy catches them unchanged. A message names the value, the place
and the remedy, and whatever raised it has changed nothing.
"""


class StreambitsError(Exception):
    """Base of all errors of this package."""


class InputError(StreambitsError, ValueError):
    """Rows or a parameter that cannot be used."""


class ReachError(InputError):
    """Most rows are so far from what was learned that the model cannot tell them apart."""


class RankError(InputError):
    """More bits were asked for than the data have independent directions."""


class EpochError(StreambitsError, ValueError):
    """Codes of two epochs were compared, or an epoch is not known."""


class MergeError(StreambitsError, ValueError):
    """Two parts that did not start from the same settings were merged."""


class ForkError(StreambitsError, RuntimeError):
    """A process was forked while another thread was inside of what is asked for."""


class StorageError(StreambitsError, ValueError):
    """A file is cut off, of something else, or of a newer format."""


class ChangedError(StorageError):
    """Files were exchanged while they were read: read them again."""


class UnreachableError(StreambitsError, ConnectionError):
    """A broker or a database does not answer, or lets nobody in."""


class MissingExtraError(StreambitsError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self._arguments = package, extra
        super().__init__(
            f"this needs the package '{package}', which is not installed: "
            f"pip install 'streambits[{extra}]'"
        )

    def __reduce__(self) -> tuple[type["MissingExtraError"], tuple[str, str]]:
        return type(self), self._arguments  # or it could not come from another process


class ReachWarning(UserWarning):
    """Rows are so far from every landmark that the model cannot tell them apart."""


class LandmarkWarning(UserWarning):
    """Landmarks come from first rows that may not be a uniform sample, or are too few."""
