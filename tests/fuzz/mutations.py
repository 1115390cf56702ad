"""Mutations: ways in which a file is damaged, each a function of its bytes and random numbers."""

import json
import os
import re
import shutil

ODD = [
    *(0, 1, -1, 2**31, 2**63, -(2**63), 10**12, 10**23, 0.5, -1e308, float("nan"), float("inf")),
    *(None, True, "", "x", "0", [], {}, [[]], {"a": {}}, ["x"], [0] * 20, "\u0000"),
]
DEEP = 2000  # brackets, one in the other


def flip_bit(raw, rng):
    place = int(rng.integers(len(raw)))
    raw[place] ^= 1 << int(rng.integers(8))


def change_byte(raw, rng):
    raw[int(rng.integers(len(raw)))] = int(rng.integers(256))


def change_bytes(raw, rng):
    start, end = _range(raw, rng)
    raw[start:end] = rng.bytes(end - start)


def zero(raw, rng):
    start, end = _range(raw, rng)
    raw[start:end] = bytes(end - start)


def cut(raw, rng):
    del raw[int(rng.integers(len(raw))) :]


def remove(raw, rng):
    start, end = _range(raw, rng)
    del raw[start:end]


def insert(raw, rng):
    place = int(rng.integers(len(raw) + 1))
    raw[place:place] = rng.bytes(int(rng.integers(1, 65)))


def repeat(raw, rng):
    start, end = _range(raw, rng)
    raw[end:end] = raw[start:end]


def swap(raw, rng):
    """Two blocks of one length change places."""
    size = int(rng.integers(1, 1 + min(64, max(1, len(raw) // 2))))
    one, other = sorted(int(n) for n in rng.integers(0, max(1, len(raw) - size + 1), 2))
    if one + size <= other:
        first, second = raw[one : one + size], raw[other : other + size]
        raw[one : one + size], raw[other : other + size] = second, first


def change_digit(raw, rng):
    """A digit in a text, or a byte where there is none."""
    places = [found.start() for found in re.finditer(rb"[0-9]", raw)]
    if not places:
        change_byte(raw, rng)
        return
    place = places[int(rng.integers(len(places)))]
    raw[place] = ord("0") + (raw[place] - ord("0") + int(rng.integers(1, 10))) % 10


def odd_value(raw, rng):
    """A value of a JSON text: the whole file, the head of safetensors or its manifest, a line."""
    for part in (_whole, _manifest, _head, _line)[int(rng.integers(2)) :]:
        found = part(raw, rng)
        if found is not None:
            raw[:] = found
            return
    change_digit(raw, rng)


def empty(raw, rng):
    del rng
    raw.clear()


CONTENT = [
    *(flip_bit, flip_bit, flip_bit, change_byte, change_bytes, zero, cut, remove, insert, repeat),
    *(swap, swap, change_digit, change_digit, odd_value, odd_value, odd_value, empty),
]


def folder(path):
    path.unlink()
    path.mkdir()


def loop(path):
    path.unlink()
    path.symlink_to(path.name)


PLACES = [folder, loop]
RARE = 0.02  # of the mutations change what lies there, and not its content


def mutate(path, rng):
    """Damage a file; gives the name of what was done. Its time stays as it was."""
    if rng.random() < RARE:
        chosen = PLACES[int(rng.integers(len(PLACES)))]
        chosen(path)
        return chosen.__name__
    times = path.stat()
    raw = bytearray(path.read_bytes())
    chosen = CONTENT[int(rng.integers(len(CONTENT)))] if raw else insert
    chosen(raw, rng)
    path.write_bytes(raw)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return chosen.__name__


def restore(folder, pristine):
    """A fresh copy of a folder in the place of another."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pristine, folder, symlinks=True)


def _range(raw, rng):
    start = int(rng.integers(len(raw)))
    return start, min(len(raw), start + int(2 ** rng.uniform(0, 9)))


def _whole(raw, rng):
    try:
        return _odd(json.loads(bytes(raw)), rng).encode()
    except ValueError:
        return None


def _head(raw, rng, change=None):
    size = int.from_bytes(raw[:8], "little")
    try:
        head = json.loads(bytes(raw[8 : 8 + size]))
    except (ValueError, OverflowError):
        return None
    text = (change or _odd)(head, rng).encode()
    return len(text).to_bytes(8, "little") + text + raw[8 + size :]


def _manifest(raw, rng):
    """The text in the metadata of a head, which is JSON again."""

    def change(head, rng):
        name = next(iter(head["__metadata__"]))
        head["__metadata__"][name] = _odd(json.loads(head["__metadata__"][name]), rng)
        return json.dumps(head)

    try:
        return _head(raw, rng, change)
    except (KeyError, TypeError, ValueError, StopIteration):
        return None


def _line(raw, rng):
    lines = bytes(raw).splitlines(keepends=True)
    place = int(rng.integers(len(lines)))
    try:
        lines[place] = _odd(json.loads(lines[place]), rng).encode() + b"\n"
    except ValueError:
        return None
    return b"".join(lines)


def _odd(value, rng):
    """The text of a value with an odd one somewhere inside."""
    places = list(_places(value))
    if not places or rng.random() < 0.05:
        return "[" * DEEP + "]" * DEEP
    holder, key = places[int(rng.integers(len(places)))]
    deep = rng.random() < 0.05
    holder[key] = "DEEP" if deep else ODD[int(rng.integers(len(ODD)))]
    text = json.dumps(value)
    return text.replace('"DEEP"', "[" * DEEP + "]" * DEEP) if deep else text


def _places(value):
    keys = value if isinstance(value, dict) else range(len(value)) if _is_list(value) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


def _is_list(value):
    return isinstance(value, list)
