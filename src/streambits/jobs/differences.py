"""In what two jobs differ, in words."""

from collections.abc import Iterator
from typing import Any

Names = dict[str, str]  # of a setting: what the user called it, such as the path of a model


def named(job: dict[str, Any]) -> dict[str, Any]:
    """The settings of a job, with what the user called them.

    >>> named({"settings": {"model": "1f2e"}, "names": {"model": "job/"}})
    {'model': 'job/ (1f2e)'}
    """
    names = job.get("names", {})
    return {
        key: _shown(value, names[key]) if key in names else value
        for key, value in job.get("settings", {}).items()
    }


def differences(
    there: Any, here: Any, name: str = "", names: tuple[Names, Names] = ({}, {})
) -> Iterator[str]:
    """What differs, in words. names: what settings there and here were called.

    >>> list(differences({"bits": 32, "seed": 0}, {"bits": 64, "seed": 0}))
    ['bits is 32 there and 64 here']
    >>> list(differences({"model": "1f2e"}, {"model": "77ab"}, names=({"model": "m"},) * 2))
    ['model m has changed (it was 1f2e there and is 77ab here)']
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for key in {**here, **there}:
            inner = f"{name} {key}" if name not in ("", "settings") else key
            yield from differences(there.get(key), here.get(key), inner, names)
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for old, new in zip(there, here, strict=True):
            yield from differences(old, new, name, names)
    elif isinstance(there, list) and isinstance(here, list):
        yield f"{name} are {len(there)} there and {len(here)} here"
    elif there != here:
        yield _difference(there, here, name, *(called.get(name) for called in names))


def _difference(there: Any, here: Any, name: str, old: str | None, new: str | None) -> str:
    if old is not None and old == new:
        return f"{name} {new} has changed (it was {there} there and is {here} here)"
    return f"{name} is {_shown(there, old)} there and {_shown(here, new)} here"


def _shown(value: Any, called: str | None = None) -> str:
    text = "not set" if value is None else str(value)
    return text if called is None else f"{called} ({text})"
