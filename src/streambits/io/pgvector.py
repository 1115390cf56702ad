"""SQL that ranks refined codes in PostgreSQL by what they decode to; it needs pgvector."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.errors import InputError
from streambits.kernels.far import FAR, FIRST, STEPS, ZERO
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.model.refinement import Refinement

FAR_PART = 10_000  # the centre of codes of components in the table of values; these follow it
LONGEST = 63  # bytes of a name; PostgreSQL cuts off the rest
WIDEST = 16000  # columns of a vector of pgvector


class RankingSql(NamedTuple):
    """Statements for a table of refined codes.

    Attributes
    ----------
    setup : str
        Makes the table of what parts of codes stand for, and the function that adds them up for
        codes of one epoch. To be run once for each coder, in one transaction.
    query : str
        Finds neighbours. Its parameters are `row`, the query itself as pgvector writes it,
        '[0.1,0.2,...]' (`vector_text`); `code`, the query encoded (`bit_strings`), where codes have
        sign bits; `candidates`, how many codes are ranked; and `k`, how many are returned.
    """

    setup: str
    query: str


def ranking_sql(
    coder: Coder, table: str = "codes", *, function: str = "streambits_decode"
) -> RankingSql:
    """Write SQL that ranks the refined codes of a table by the distance to what they decode to.

    Parameters
    ----------
    coder : Coder
        With a refinement; it made the codes.
    table : str, default "codes"
        The table that `PostgresSink` has written: 'table' or 'schema.table'.
    function : str, default "streambits_decode"
        Beginning of the names of what `setup` makes: for epoch 0, a function that decodes,
        `streambits_decode_0(code, refinement)`, or `streambits_decode_0(refinement)` for codes
        without sign bits; and the table `streambits_decode_values` of all epochs. Tables whose
        codes were made by different models need different names.

    Returns
    -------
    RankingSql
        `setup`, and a `query` for the codes of the coder's epoch.

    Raises
    ------
    InputError
        If codes of the coder do not decode, or a name is not one of PostgreSQL.

    Notes
    -----
    A code decodes to a sum: an origin, a vector for each half byte of its sign bits, and one for
    each byte of its refinement. All those vectors are in a table, 16 and 256 of them for each,
    beside the epoch; the function looks them up and adds them, in single precision. Codes that
    begin with 255, of rows beyond the centres, are sums of components at their own scale. Where all
    rows have one length, as embeddings do, the others are brought to it, since searches rank so.

    The query finds candidates by Hamming distance and then ranks them, 300 of them in some tens of
    milliseconds for 128 columns. An index helps it on large tables: CREATE INDEX ON codes USING
    hnsw (code bit_hamming_ops), and then SET hnsw.ef_search to the number of candidates, or there
    are 40 of them (docs/postgres.md). Without sign bits, candidates are found by what the bytes of
    every code add to the squared distance; that they are ranked again is for the sake of rounding,
    and `candidates` need not be more than a few times k.

    Examples
    --------
    >>> import streambits as sb
    >>> rows = np.random.default_rng(0).standard_normal((500, 4))
    >>> coder = sb.ssbc(rows[:100], bits=8, refine=2).learn(rows).coder()
    >>> print(ranking_sql(coder).query)
    SELECT id, "streambits_decode_0"(code, refinement) <-> %(row)s::vector AS distance
    FROM (
      SELECT id, code, refinement FROM "codes" WHERE epoch = 0
      ORDER BY code <~> %(code)s::bit(8), id LIMIT %(candidates)s
    ) AS candidates
    ORDER BY distance, id LIMIT %(k)s
    """
    if coder.refinement is None:
        raise InputError(
            "codes of sign bits alone do not decode: learn with refine=8, or another number of "
            "bytes, or search by code <~> ..."
        )
    if len(coder.refinement.offset) > WIDEST:
        columns = len(coder.refinement.offset)
        raise InputError(f"rows have {columns} columns, and vectors of pgvector at most {WIDEST:,}")
    decode, values = f"{function}_{coder.epoch}", f"{function}_values"
    names = _quoted(table), _quoted(decode), _quoted(values)
    setup = _setup(coder, coder.refinement, *names[1:])
    return RankingSql(setup, _query(coder, coder.refinement, names))


def _setup(coder: Coder, refinement: Refinement, function: str, values: str) -> str:
    arguments = ["code bit"] * (coder.bits > 0) + ["refinement bytea"]
    more, columns = f"${len(arguments)}", len(refinement.offset)
    parts = [*enumerate(_parts(refinement)), *enumerate(_far_parts(refinement), FAR_PART)]
    entries = ",\n".join(
        f"({coder.epoch}, {part}, {value}, '{vector_text(row)}')"
        for part, rows in parts
        for value, row in enumerate(rows)
    )

    def added(first: int, wanted: list[str]) -> str:
        return " + ".join(
            f"(SELECT v.decoded FROM {values} v WHERE v.epoch = {coder.epoch} "
            f"AND v.part = {part} AND v.value = {value})"
            for part, value in enumerate(wanted, first)
        )

    def times(number: str) -> str:
        return f"array_fill(({number})::real, ARRAY[{columns}])::vector"

    body = added(0, ["0", *_values(refinement, more)])
    if refinement.length:
        body = f"l2_normalize({body}) * {times(f'{refinement.length:.17g}')}"
    if refinement.far is not None:
        scale = f"{refinement.far.unit:.17g} * 2 ^ ((get_byte({more}, 1) - {ZERO}) / {STEPS}.0)"
        far = added(FAR_PART + 1, _levels(refinement.far.widths.tolist(), more))
        far = f"{added(FAR_PART, ['0'])} + {times(scale)} * ({far})"
        body = f"CASE WHEN get_byte({more}, 0) = {FAR} THEN {far} ELSE {body} END"
    return f"""CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE IF NOT EXISTS {values} (
  epoch int, part int, value int, decoded vector({columns}) NOT NULL,
  PRIMARY KEY (epoch, part, value)
);
DELETE FROM {values} WHERE epoch = {coder.epoch};
INSERT INTO {values} VALUES
{entries};
CREATE OR REPLACE FUNCTION {function}({", ".join(arguments)}) RETURNS vector
LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $streambits$ SELECT {body} $streambits$;
"""


def _query(coder: Coder, refinement: Refinement, names: Iterable[str]) -> str:
    table, function, values = (name.replace("%", "%%") for name in names)
    source, order = table, f"code <~> %(code)s::bit({coder.bits})"
    if not coder.bits:
        source, order = f"{table}, ({_costs(coder.epoch, values)}) AS asked", _cost(refinement)
        if refinement.far is not None:
            true = f"({function}(refinement) <-> %(row)s::vector) ^ 2 - base"
            order = f"CASE WHEN get_byte(refinement, 0) = {FAR} THEN {true} ELSE {order} END"
    columns = "code, refinement" if coder.bits else "refinement"
    return f"""SELECT id, {function}({columns}) <-> %(row)s::vector AS distance
FROM (
  SELECT id, {columns} FROM {source} WHERE epoch = {coder.epoch}
  ORDER BY {order}, id LIMIT %(candidates)s
) AS candidates
ORDER BY distance, id LIMIT %(k)s"""


def _costs(epoch: int, values: str) -> str:
    """What every centre c adds to a squared distance: c . c - 2 c . (row - origin).

    Those of different bytes are at right angles, so that is all but |row - origin|^2. In pgvector,
    a <#> b is the inner product with the opposite sign.
    """
    return (
        f"SELECT array_agg(2 * (c.decoded <#> (%(row)s::vector - origin.decoded)) "
        f"- (c.decoded <#> c.decoded) ORDER BY c.part, c.value) AS costs, "
        f"max((%(row)s::vector <-> origin.decoded) ^ 2) AS base "
        f"FROM {values} c, {values} origin "
        f"WHERE c.epoch = {epoch} AND origin.epoch = {epoch} AND origin.part = 0 "
        f"AND c.part BETWEEN 1 AND {FAR_PART - 1}"
    )


def _cost(refinement: Refinement) -> str:
    """What the bytes of a code add up to."""
    bytes_ = enumerate(_values(refinement, "refinement"))
    return " + ".join(f"costs[{1 + 256 * number} + {byte}]" for number, byte in bytes_)


def _parts(refinement: Refinement) -> list[NDArray[np.float64]]:
    """The origin, and what each part of a code adds to a decoded row, for all its values.

    A part is a half byte of the sign bits, the first bit of which is the highest of its value, or a
    byte of the refinement.
    """
    quantiser, swapped = refinement.quantiser, [int(f"{v:04b}"[::-1], 2) for v in range(16)]
    halves = [table[swapped] for table in refinement.tables[: -(-refinement.bits // 4)]]
    groups = [
        quantiser.centres[start:end].T @ quantiser.axes[:, start:end].T
        for start, end in pairwise(quantiser.starts.tolist())
    ]
    return [(refinement.offset + quantiser.mean)[None, :], *halves, *groups]


def _far_parts(refinement: Refinement) -> list[NDArray[np.float64]]:
    """The centre of codes of components, and what each component adds at scale 1, by its level."""
    far = refinement.far
    if far is None:
        return []
    most = 2 ** (far.widths - 1) - 1
    steps = [np.arange(2**width) - m for width, m in zip(far.widths, most, strict=True)]
    each = zip(steps, far.reach / most, far.axes, strict=True)
    return [far.centre[None, :], *(step[:, None] * size * axis for step, size, axis in each)]


def _levels(widths: list[int], more: str) -> list[str]:
    """The level of each component in SQL, from the bits of the refinement `more`."""
    ends = np.cumsum([FIRST, *widths]).tolist()
    return [
        " + ".join(f"(get_bit({more}, {start + bit}) << {bit})" for bit in range(width))
        for start, width in zip(ends, widths, strict=False)
    ]


def _values(refinement: Refinement, more: str) -> list[str]:
    """The value of each of these parts in SQL, where a code is $1 and its refinement `more`."""
    starts = range(1, refinement.bits + 1, 4)
    halves = [f"substring($1 from {start} for 4)::bit(4)::int" for start in starts]
    return halves + [f"get_byte({more}, {n})" for n in range(refinement.quantiser.n_bytes)]


def vector_text(row: Any) -> str:
    """A row as pgvector writes it.

    >>> vector_text([0.5, -2])
    '[0.5,-2]'
    """
    return f"[{','.join(f'{value:.9g}' for value in np.asarray(row, np.float64).tolist())}]"


def bit_strings(codes: Codes) -> list[str]:
    """Codes as strings of 0 and 1, as PostgreSQL writes its type `bit`.

    >>> bit_strings(Codes.from_bits([[1, 0, 1], [0, 0, 1]]))
    ['101', '001']
    """
    digits = (codes.unpack().view("u1") + ord("0")).tobytes().decode()
    return [digits[i * codes.bits : (i + 1) * codes.bits] for i in range(len(codes))]


def split_name(table: str, holder: str) -> list[str]:
    """Schema and table, or the table alone, as PostgreSQL can have them; `holder`: who asks."""
    found = table.split(".")
    if len(found) > 2 or not all(0 < len(part.encode()) <= LONGEST for part in found):
        raise InputError(
            f"{holder}: a table is named 'table' or 'schema.table', each of 1 to {LONGEST} bytes"
        )
    if "\0" in table:
        raise InputError(f"{holder}: the name of a table cannot have a NUL character")
    return found


def _quoted(name: str) -> str:
    return ".".join('"{}"'.format(part.replace('"', '""')) for part in split_name(name, repr(name)))
