"""The declaration of a method that is compared, with what only rivals need to say."""

from dataclasses import dataclass

from streambits.methods import Method


@dataclass(frozen=True)
class Compared(Method):
    """A row of the table of methods that are compared.

    Parameters
    ----------
    name, build, limit, signs, preset
        As for `streambits.methods.Method`.
    streams : bool, default True
        Whether rows of the stream change it; shards that have seen different rows then merge.
    distance : {"hamming", "product", "spherical"}
        How its codes are meant to be compared.
    most_rows : int, optional
        Where every row must be a landmark, the number of rows that is possible in reasonable time.
    """

    streams: bool = True
    distance: str = "hamming"
    most_rows: int | None = None

    def refusal(self, bits: int, *, landmarks: int, columns: int, rows: int = 0) -> str:
        """Say why the method does not have codes of this length for so many rows, or ''."""
        if self.most_rows is not None and rows > self.most_rows:
            return f"at most {self.most_rows} rows: every one is a landmark, and there are {rows}"
        return super().refusal(bits, landmarks=landmarks, columns=columns)
