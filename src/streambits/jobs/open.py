"""What a job reads: files, standard input, or a broker, by its name."""

from typing import Any, NamedTuple

from streambits.errors import InputError
from streambits.io.protocols import Source
from streambits.io.rows import open_source
from streambits.io.rows.files import Files
from streambits.io.urls import is_url, shown

BROKERS = ("nats", "tls", "kafka")  # schemes of their URLs


class ReadOptions(NamedTuple):
    """How to read. columns: names with commas between, or for a broker how many; ids: the column,
    or the name in a message; follow, idle: for brokers; retry_seconds: files do not need it;
    accept_changes: go on though files that were read before have changed since.
    """

    columns: str | None = None
    ids: str | None = None
    format: str | None = None
    follow: bool = False
    idle: float | None = None
    retry_seconds: float | None = None
    accept_changes: bool = False


def open_any(paths: list[str], how: ReadOptions) -> Source:
    """Files, folders and globs; - for standard input; nats:// or kafka:// for a broker."""
    schemes = [path.partition("://")[0] for path in paths if is_url(path)]
    if not schemes:
        live = [name for name in ("follow", "idle") if getattr(how, name)]
        if live:
            raise InputError(f"--{live[0]} is for brokers: files are read to their end")
        names = how.columns.split(",") if how.columns else None
        source = open_source(paths, columns=names, ids=how.ids, format=how.format)
        if isinstance(source, Files):
            source.accepts_changes = how.accept_changes
        return source
    if len(paths) > 1 or schemes[0] not in BROKERS:
        known = ", ".join(f"{scheme}://" for scheme in BROKERS)
        raise InputError(
            f"{' '.join(map(shown, paths))} is no source: name files, or one of {known}"
        )
    return _broker(paths[0], schemes[0], how)


def _broker(url: str, scheme: str, how: ReadOptions) -> Source:
    settings: dict[str, Any] = {"follow": how.follow, "idle": how.idle}
    if how.retry_seconds is not None:
        settings["retry_seconds"] = how.retry_seconds
    if how.format:
        settings["format"] = how.format
    if how.ids:
        settings["id_key"] = how.ids
    if how.columns:
        if not how.columns.isdecimal():
            raise InputError(f"columns is {how.columns!r}; for a broker it is a number")
        settings["columns"] = int(how.columns)
    if scheme == "kafka":
        from streambits.io.rows.kafka import KafkaSource  # noqa: PLC0415 - an extra

        return KafkaSource.from_url(url, **settings)
    from streambits.io.rows.nats import NatsSource  # noqa: PLC0415 - an extra

    return NatsSource.from_url(url, **settings)
