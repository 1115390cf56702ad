"""Lines of a file with their places, a block at a time."""

import zlib
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from streambits.errors import StorageError
from streambits.io.rows.handles import Handle, skip
from streambits.io.rows.parts import At

LONGEST = 1 << 24  # bytes of a line; more is no text
TOGETHER = 1 << 25  # bytes of lines that are handed out together, or a little more
MARK = b"\xef\xbb\xbf"  # with which some editors begin UTF-8


class Block(NamedTuple):
    """Lines that are not blank, without their ends; their numbers, from 1; where they end."""

    lines: list[bytes]
    numbers: Sequence[int]
    at: At


class Lines:
    """The lines of a stream. What is read before an error is handed out before it is raised.

    Of a stream that comes slowly, those that are there are handed out.
    """

    def __init__(self, stream: BinaryIO, handle: Handle) -> None:
        self._stream, self._handle = stream, handle
        self._byte = self._line = 0
        self._error: StorageError | None = None

    def block(self, most: int) -> Block | None:
        """The next lines, at most so many; None at the end."""
        while lines := self._read(most):
            numbers: Sequence[int] = range(self._line + 1, self._line + len(lines) + 1)
            first = self._byte == 0
            self._byte += sum(map(len, lines))
            self._line += len(lines)
            if first:
                lines[0] = lines[0].removeprefix(MARK)
            lines = [line.rstrip(b"\r\n") for line in lines]
            if any(not line or line.isspace() for line in lines):
                kept = [i for i, line in enumerate(lines) if line and not line.isspace()]
                lines, numbers = [lines[i] for i in kept], [numbers[i] for i in kept]
            if lines:
                return Block(lines, numbers, {"byte": self._byte, "line": self._line})
        return None

    def skip(self, at: At) -> None:
        """Go on where a block ended; what cannot seek is read."""
        where = f", line {at['line']}"
        if not self._handle.seeks:
            skip(self._stream, at["byte"] - self._byte, self._handle, where)
        else:
            self._stream.seek(at["byte"] - 1)
            if len(self._stream.read(1)) != 1:
                raise StorageError(
                    f"{self._handle.name} ends before the place to go on from{where}: is it the "
                    f"same as before?"
                )
        self._byte, self._line = at["byte"], at["line"]

    def _read(self, most: int) -> list[bytes]:
        if self._error is not None:
            raise self._error
        lines: list[bytes] = []
        size = 0
        try:
            while len(lines) < most and size < TOGETHER and (not lines or self._handle.ready()):
                line = self._stream.readline(LONGEST)
                if not line:
                    break
                lines.append(_whole(line))
                size += len(line)
        except (OSError, EOFError, zlib.error, OverflowError) as error:
            last, reason = self._line + len(lines), getattr(error, "strerror", None) or error
            self._error = StorageError(
                f"{self._handle.name} cannot be read after line {last}: {reason}"
            )
            if not lines:
                raise self._error from error
        return lines


def _whole(line: bytes) -> bytes:
    if len(line) == LONGEST and not line.endswith(b"\n"):
        raise OverflowError(f"the next has more than {LONGEST} bytes: is this text?")
    return line
