"""Codes converted, once, to one file of another format."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.io.codes import StoredCodes, open_codes
from streambits.io.codes.jsonl import write_lines
from streambits.io.codes.npy import write_arrays
from streambits.io.codes.parquet import write_codes
from streambits.model.coder import Coder
from streambits.storage import save

ENDINGS = (".index", ".safetensors", ".parquet", ".jsonl", ".ndjson", ".npy", ".faiss")


def export(
    codes: HammingIndex | StoredCodes | str | Path,
    path: str | Path,
    *,
    coder: Coder | None = None,
) -> HammingIndex:
    """Convert codes to a file, in the format that its name asks for.

    | file | what it is |
    |---|---|
    | .index, .safetensors | an index that `streambits.load` opens without reading it |
    | .parquet | columns id, code, refinement and epoch |
    | .jsonl, .ndjson | a line {"id": 7, "code": "05", "epoch": 0} per code |
    | .npy | packed codes; x.ids.npy, x.epochs.npy and x.refinements.npy lie beside x.npy |
    | .faiss | a binary index of FAISS; product codes with the centres of their coder |

    Parameters
    ----------
    codes
        An index, or where codes lie, as `open_codes` takes it.
    path
        The file, which is replaced. It appears whole or not at all.
    coder
        What made the codes: a file of FAISS needs it, if they have no sign bits.

    Returns
    -------
    HammingIndex
        The codes that were written, by epoch and then by id: the last code of every id.

    Raises
    ------
    InputError
        If the name asks for no format; or the format cannot hold the codes: FAISS has no epochs,
        FAISS and .npy have ids that are whole numbers.
    StorageError
        If there are no codes, or the file cannot be written.

    Notes
    -----
    Payload stays behind, and FAISS has the sign bits alone of codes that have both. Memory: the
    codes.

    Examples
    --------
    >>> import tempfile
    >>> from streambits import Codes
    >>> index = HammingIndex(3)
    >>> index.add(Codes.from_bits([[True, False, True]]), [7])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     index = export(index, f"{folder}/codes.jsonl")
    ...     print(Path(folder, "codes.jsonl").read_text())
    {"id": 7, "code": "05", "epoch": 0}
    """
    path = Path(path)
    _check_format(path)
    if isinstance(codes, str | Path):
        codes = open_codes(codes)
    index = codes.index() if isinstance(codes, StoredCodes) else codes
    if path.suffix == ".faiss":
        from streambits.io.codes.faiss import write_faiss  # noqa: PLC0415 - an extra

        write_faiss(index, path, coder)
    elif path.suffix == ".parquet":
        write_codes(index.items(), index.bits, path, refine=index.refine or 0)
    elif path.suffix == ".npy":
        write_arrays(index, path)
    elif path.suffix in (".jsonl", ".ndjson"):
        write_lines(index, path)
    else:
        save(index, path)
    return index


def check_target(path: str | Path, *, refine: int = 0, keep: Sequence[str] = ()) -> None:
    """Refuse, before there are codes, a file that could not hold all of them.

    refine: bytes of refinement per code; keep: names of the payload.
    """
    _check_format(Path(path))
    if keep:
        raise InputError(
            f"{path} has no place for {', '.join(keep)}: Parquet parts and tables keep more than "
            f"codes"
        )
    if refine and Path(path).suffix == ".faiss":
        raise InputError(
            f"{path}: a file of FAISS holds sign bits alone, and the codes have {refine} bytes of "
            f"refinement: write an index, and convert it by streambits.interop.faiss"
        )
    if not Path(path).parent.is_dir():
        raise StorageError(f"{path} cannot be written: there is no folder {Path(path).parent}")


def _check_format(path: Path) -> None:
    if path.suffix not in ENDINGS:
        raise InputError(
            f"{path} names no format of codes: its name should end in one of {', '.join(ENDINGS)}"
        )
    if path.suffix == ".faiss":
        import_module("streambits.io.codes.faiss")  # or say now that the extra is not installed
