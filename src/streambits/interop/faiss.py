"""FAISS: its binary and product-quantised indexes, to and from ours.

`streambits.io.codes.faiss` has their files.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, as_rows, double, to_numpy
from streambits._threads import rescan_blas
from streambits.errors import EpochError, InputError, MissingExtraError
from streambits.features import Linear
from streambits.index import HammingIndex
from streambits.model.coder import Coder
from streambits.model.codes import Codes, as_bits, check_refine
from streambits.model.projection import no_directions
from streambits.model.quantiser import BITS, MOST_BYTES, ProductQuantiser
from streambits.model.refinement import BEYOND, LEVELS, Refinement

try:
    import faiss
except ImportError:
    raise MissingExtraError("faiss-cpu", "faiss") from None

__all__ = ["CodedIndex", "faiss", "from_faiss", "to_faiss"]

CENTRES = 1 << BITS
ROUNDING = 1e-4  # of a rotation in single precision; what is further off is none

rescan_blas()  # FAISS brings a BLAS of its own, whatever was imported first


class CodedIndex(NamedTuple):
    """An index of product codes, and what decodes them.

    Attributes
    ----------
    coder : Coder
        Encodes rows, and queries for `index.search(coder.queries(rows))`.
    index : HammingIndex
    """

    coder: Coder
    index: HammingIndex  # type: ignore[assignment]  # tuples have a method of that name


def to_faiss(index: HammingIndex, coder: Coder | None = None) -> Any:
    """Convert an index to FAISS: the same codes under the same ids.

    Parameters
    ----------
    index
        An index of one epoch at most, for FAISS has none, and with whole numbers for ids.
    coder
        What made the codes, if they have no sign bits: FAISS holds its centres.

    Returns
    -------
    faiss.IndexBinaryIDMap
        Over an IndexBinaryFlat, of the sign bits; a refinement is left out. FAISS has whole bytes:
        other lengths are filled up with zeros, which changes no distance. Search it by the
        `packed` bytes of codes.
    faiss.IndexIDMap
        Over an IndexPreTransform and an IndexPQ, of codes without sign bits; a byte for the error
        is left out. Search it by rows.

    Notes
    -----
    FAISS wants as many axes in every group of product codes. Smaller groups are filled up with
    zeros, in rows and centres, which changes no distance. Its distances are those along the axes of
    the quantiser: what a query has outside of them is the same for all codes, and is not counted.
    So neighbours are those of decoded rows, and squared distances less by the same amount for all
    answers to a query. All that in single precision. Rows beyond the centres, which have codes of
    another kind here, get the nearest centres.
    """
    if len(index.epochs) > 1:
        raise EpochError(
            f"the index holds epochs {', '.join(map(str, index.epochs))}, and FAISS would compare "
            f"their codes as if they were of one: bring all rows to one epoch first"
        )
    _check_numbers(index)
    if not index.bits:
        return _product(index, _refinement(index, coder))
    if coder is not None:
        raise InputError(
            "FAISS has no codes of sign bits and a refinement: to_faiss(index), without the coder, "
            "converts the sign bits"
        )
    flat: Any = faiss.IndexBinaryFlat(8 * -(-index.bits // 8))
    named = faiss.IndexBinaryIDMap(flat)
    flat.this.disown()
    named.own_fields = True
    for ids, codes in index.items():
        named.add_with_ids(codes.packed, ids)
    return named


def _check_numbers(index: HammingIndex) -> None:
    for ids, _ in index.items(1):
        if ids.dtype.kind == "T":
            raise InputError(
                f"the ids of the index are texts, as {ids[0]!r}, and FAISS has whole numbers only: "
                f"number the rows, keep the texts beside them, and index the codes by these numbers"
            )
        break


def _refinement(index: HammingIndex, coder: Coder | None) -> Refinement:
    """What decodes the codes of an index without sign bits."""
    if coder is None or coder.refinement is None or coder.bits:
        raise InputError(
            "codes without sign bits mean nothing to FAISS without their centres: pass the coder "
            "that made them, to_faiss(index, coder)"
        )
    for _, codes in index.items(1):
        check_refine(codes, coder.refine, "codes of this coder")
        if codes.epoch != coder.epoch:
            raise EpochError(f"codes are of epoch {codes.epoch}, and the coder is of {coder.epoch}")
        break
    return coder.refinement


def _product(index: HammingIndex, refinement: Refinement) -> Any:
    quantiser = refinement.quantiser
    groups, starts = quantiser.n_bytes, quantiser.starts
    width = max(1, int(np.diff(starts).max()))
    matrix = np.zeros((groups, width, quantiser.inputs))
    centres = np.zeros((groups, CENTRES, width))
    for group, (start, end) in enumerate(pairwise(starts.tolist())):
        matrix[group, : end - start] = quantiser.axes[:, start:end].T
        centres[group, :, : end - start] = quantiser.centres[start:end].T
        centres[group, quantiser.counts[group] :] = centres[group, 0]  # no row is nearer to them
    linear: Any = faiss.LinearTransform(quantiser.inputs, groups * width, True)
    _put(matrix, linear.A)
    _put(-matrix @ (refinement.offset + quantiser.mean), linear.b)
    product: Any = faiss.IndexPQ(groups * width, groups, BITS)
    _put(centres, product.pq.centroids)
    linear.is_trained = product.is_trained = True
    turned: Any = faiss.IndexPreTransform(linear, product)
    named: Any = faiss.IndexIDMap(turned)
    ids = [np.empty(0, np.int64)]
    for some, codes in index.items():
        assert codes.refinement is not None
        numbers = np.array(codes.refinement[:, :groups])
        far = refinement.is_far(numbers)
        if far.any():  # FAISS knows centres only
            there = refinement.decode(codes.packed[far], codes.refinement[far])
            numbers[far] = quantiser.encode(there - refinement.offset)
        product.add_sa_codes(numbers)
        ids.append(some)
    faiss.copy_array_to_vector(np.concatenate(ids), named.id_map)
    turned.ntotal = named.ntotal = product.ntotal
    return named


def _put(values: NDArray[np.float64], vector: Any) -> None:
    faiss.copy_array_to_vector(values.astype(np.float32).ravel(), vector)


def from_faiss(
    index: Any,
    *,
    bits: int | None = None,
    epoch: int = 0,
    rows: Array = None,
) -> HammingIndex | CodedIndex:
    """Convert an index of FAISS to ours.

    Parameters
    ----------
    index
        An IndexBinaryFlat, or an IndexBinaryIDMap over one; or an IndexPQ of 8 bits per group and
        Euclidean distances, maybe in an IndexPreTransform with a rotation (OPQMatrix, PCAMatrix
        and others that turn rows and do not stretch them), in an IndexIDMap. Of an id that it has
        twice, the last code counts.
    bits
        Length of binary codes that was filled up to whole bytes; by default all that FAISS has.
    epoch
        Epoch of the codes.
    rows
        (n, d) the rows of an IndexPQ, in its order. With them every code gets a byte that bounds
        the error of what it decodes to, so that answers can be certified.

    Returns
    -------
    HammingIndex
        Of a binary index.
    CodedIndex
        Of an IndexPQ: an index of codes without sign bits, and their coder.
    """
    inner, ids = index, None
    if isinstance(index, faiss.IndexBinaryIDMap):
        inner = faiss.downcast_IndexBinary(index.index)
        ids = faiss.vector_to_array(index.id_map)
    if isinstance(inner, faiss.IndexBinaryFlat) and rows is None:
        codes = _binary(inner, bits, epoch)
        return _indexed(HammingIndex(codes.bits, refine=0), codes, ids)
    if isinstance(index, faiss.IndexIDMap):
        inner = faiss.downcast_index(index.index)
        ids = faiss.vector_to_array(index.id_map)
    matrix, bias = None, None
    if isinstance(inner, faiss.IndexPreTransform):
        matrix, bias = _composed(inner)
        inner = faiss.downcast_index(inner.index)
    if not isinstance(inner, faiss.IndexPQ) or bits:
        raise InputError(
            f"index is a {type(inner).__name__}: pass an IndexBinaryFlat, or an IndexBinaryIDMap "
            f"over one; or an IndexPQ without bits, maybe with a rotation and ids"
        )
    quantiser = _quantiser(inner, matrix, bias)
    coder, codes = _coded(inner, quantiser, epoch, rows)
    ours = HammingIndex(0, refine=codes.refine)
    return CodedIndex(coder, _indexed(ours, codes, ids))


def _indexed(ours: HammingIndex, codes: Codes, ids: Any) -> HammingIndex:
    ours.add(codes) if ids is None else ours.upsert(codes, ids)
    return ours


def _binary(flat: Any, bits: int | None, epoch: int) -> Codes:
    length = flat.d if bits is None else as_bits(bits)
    if not flat.d - 8 < length <= flat.d:
        raise InputError(f"bits is {length}, and the FAISS index has codes of {flat.d} bits")
    packed = faiss.vector_to_array(flat.xb).reshape(-1, flat.d // 8)
    return Codes(packed, length, epoch)


def _composed(index: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the transforms of an index do to a row: matrix @ row + bias."""
    matrix, bias = np.eye(index.d), np.zeros(index.d)
    for number in range(index.chain.size()):
        each: Any = faiss.downcast_VectorTransform(index.chain.at(number))
        if not isinstance(each, faiss.LinearTransform):
            raise InputError(f"index has a {type(each).__name__}, which is not a rotation of rows")
        turn = faiss.vector_to_array(each.A).reshape(-1, each.d_in)[: each.d_out].astype(np.float64)
        matrix, bias = turn @ matrix, turn @ bias
        if each.have_bias:
            bias += faiss.vector_to_array(each.b)[: each.d_out]
    return matrix, bias


def _quantiser(index: Any, matrix: Any, bias: Any) -> ProductQuantiser:
    """That of an IndexPQ whose rows were turned; rows of the matrix that are zero do not matter."""
    pq = index.pq
    if pq.nbits != BITS or index.metric_type != faiss.METRIC_L2 or pq.M > MOST_BYTES:
        raise InputError(
            f"index has {pq.M} groups of {pq.nbits} bits and the metric {index.metric_type}: up to "
            f"{MOST_BYTES} groups of {BITS} bits, and METRIC_L2 ({faiss.METRIC_L2}), can be taken"
        )
    if not index.is_trained:
        raise InputError("index was not trained: train it first")
    matrix, bias = (np.eye(index.d), np.zeros(index.d)) if matrix is None else (matrix, bias)
    centroids = faiss.vector_to_array(pq.centroids).reshape(pq.M, CENTRES, pq.dsub)
    centres = np.moveaxis(centroids, 1, 2).reshape(index.d, CENTRES).astype(np.float64)
    there = np.linalg.norm(matrix, axis=1) > 0
    if np.abs(centres - bias[:, None])[~there].max(initial=0.0) > ROUNDING:
        raise InputError("index has columns that are the same for all rows, and others in centres")
    axes, mean = _rotation(matrix[there], bias[there])
    widths = there.reshape(pq.M, pq.dsub).sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    counts = np.full(pq.M, CENTRES, np.int64)
    return ProductQuantiser(mean, axes, starts, np.ascontiguousarray(centres[there]), counts)


def _rotation(
    matrix: NDArray[np.float64], bias: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Axes (d, a), orthonormal in double precision, and the row that becomes the origin."""
    count, columns = matrix.shape
    if count > columns or np.abs(matrix @ matrix.T - np.eye(count)).max(initial=0.0) > ROUNDING:
        raise InputError(
            f"index turns rows of {columns} columns to {count} by what is not a rotation, so its "
            f"distances are not those of rows: turn them without stretching them, and where groups "
            f"need more columns, add columns of zeros to the rows"
        )
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    axes = np.ascontiguousarray((left @ right).T)
    return axes, -axes @ bias


def _coded(index: Any, quantiser: ProductQuantiser, epoch: int, rows: Array) -> tuple[Coder, Codes]:
    """The coder of an IndexPQ and its codes, with a byte for the error if there are rows."""
    packed = faiss.vector_to_array(index.codes).reshape(-1, quantiser.n_bytes)
    nothing, columns = np.empty((len(packed), 0), np.uint8), quantiser.inputs
    radii = np.empty(0)
    if rows is not None:
        errors = _errors(quantiser, packed, rows)
        radii = BEYOND * (errors.max(initial=0.0) or 1.0) * np.arange(1, LEVELS + 1) / LEVELS
        bounds = np.searchsorted(radii, errors).astype(np.uint8)
        packed = np.column_stack([packed, bounds])
    features = Linear(quantiser.mean)
    tables = np.zeros((0, 16, columns))
    refinement = Refinement(0, tables, np.zeros(columns), quantiser, radii)
    coder = Coder(features, no_directions(features).projection, epoch, refinement)
    return coder, Codes(nothing, 0, epoch, packed)


def _errors(quantiser: ProductQuantiser, packed: Any, rows: Array) -> NDArray[np.float64]:
    """How far rows are from what their codes decode to, at most."""
    checked = double(to_numpy(as_rows(rows, width=quantiser.inputs)))
    if len(checked) != len(packed):
        raise InputError(f"there are {len(checked)} rows, and {len(packed)} codes in the index")
    decoded = quantiser.decode(packed)
    rounding = 1e-13 * (np.linalg.norm(checked, axis=1) + np.linalg.norm(decoded, axis=1))
    errors: NDArray[np.float64] = np.linalg.norm(checked - decoded, axis=1) + rounding
    return errors
