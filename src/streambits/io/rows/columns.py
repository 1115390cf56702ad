"""Which columns of an Arrow schema hold the rows. pyarrow is `Any` here: it has no types."""

from typing import Any

from streambits.errors import InputError
from streambits.io.rows.parts import Options


def choose(schema: Any, options: Options, path: str) -> tuple[tuple[str, ...], bool]:
    """The columns to take, and whether they are one column of lists."""
    if options.ids is not None and not _is_whole(_type(schema, options.ids, path)):
        found = _type(schema, options.ids, path)
        raise InputError(f"{path}: the ids {options.ids!r} are {found}, no whole numbers")
    names = options.columns or _default(schema, options, path)
    types = [_type(schema, name, path) for name in names]
    if len(names) == 1 and _is_list(types[0]):
        return names, True
    for name, found in zip(names, types, strict=True):
        if not _is_number(found):
            other = "; several columns must be numbers" if _is_list(found) else ""
            raise InputError(
                f"{path}: column {name!r} is {found}, neither numbers nor lists of numbers{other}"
            )
    return names, False


def _default(schema: Any, options: Options, path: str) -> tuple[str, ...]:
    others = [field for field in schema if field.name != options.ids]
    lists = tuple(field.name for field in others if _is_list(field.type))
    numbers = tuple(field.name for field in others if _is_number(field.type))
    if len(lists) != 1 and not numbers:
        has = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise InputError(f"{path} has no columns of numbers, nor one of lists: it has {has}")
    return lists if len(lists) == 1 else numbers


def _type(schema: Any, name: str, path: str) -> Any:
    places = schema.get_all_field_indices(name)
    if len(places) != 1:
        has = f"{len(places)} columns" if places else "no column"
        raise InputError(f"{path} has {has} {name!r}; it has {', '.join(schema.names)}")
    return schema.field(places[0]).type


def _is_whole(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return bool(pa.types.is_integer(kind))


def _is_number(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_list(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    kind, types = getattr(kind, "storage_type", kind), pa.types  # of an extension type
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(lists) and _is_number(kind.value_type)
