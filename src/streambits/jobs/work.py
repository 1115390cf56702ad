"""What a job does with rows: learn them, encode them, or both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streambits.model.batches import CodeBatch
from streambits.model.learner import Learner

Ids = NDArray[np.int64]
Rows = NDArray[Any]


class Work(Protocol):
    """ready: whether what was taken is in `parts`, so that it can be committed."""

    @property
    def ready(self) -> bool: ...
    @property
    def epoch(self) -> int: ...
    @property
    def learner(self) -> Learner | None: ...

    def take(self, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        """Rows in the order of the source; gives codes, perhaps of rows that came before."""
        ...

    def rest(self) -> Iterator[CodeBatch]:
        """No more rows come for now."""
        ...

    def parts(self) -> dict[str, Any]:
        """What was learned."""
        ...

    def resume(self, parts: dict[str, Any], folder: Path | None) -> None:
        """Go back to that, or begin if there is nothing; folder: of the job, if it has one."""
        ...

    def committed(self) -> None:
        """What `parts` gave last is on the disk, and what it did not name is not needed."""
        ...

    def save(self, folder: Path) -> None:
        """Write what was learned for others to use."""
        ...
