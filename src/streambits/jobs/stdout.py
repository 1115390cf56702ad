"""Standard output as a sink: JSON lines."""

import os
import sys
from typing import Any

from streambits.errors import StorageError
from streambits.model.codes import Codes


class StandardOutput:
    """Lines such as {"id": 7, "code": "05a0", "epoch": 0}, as `sinks.jsonl` writes them."""

    name = "standard output"

    def write(self, ids: Any, codes: Codes) -> None:
        """Print the codes; an id that comes twice is there twice."""
        lines = (
            f'{{"id": {name}, "code": "{code.tobytes().hex()}", "epoch": {codes.epoch}}}\n'
            for name, code in zip(ids.tolist(), codes.packed, strict=True)
        )
        try:
            sys.stdout.write("".join(lines))
            sys.stdout.flush()
        except OSError as error:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - or Python complains at the end
            raise StorageError(f"standard output: {error.strerror or error}") from error

    def commit(self) -> None:
        """All is written at once."""

    def close(self) -> None:
        """Nothing is held."""
