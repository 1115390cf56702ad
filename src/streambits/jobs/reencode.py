"""Bring all codes to one epoch, from the rows they came from, in a new place."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streambits._arrays import NO_IDS, concat_ids
from streambits._files import sync_folder
from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.io.codes import open_sink
from streambits.io.protocols import Source
from streambits.jobs.folder import JobFolder
from streambits.jobs.models import Model, OpenModel
from streambits.model.batches import Reject, RowBatch
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.model.sampling import Reservoir
from streambits.online import reencode
from streambits.storage import save


class Reencoded(NamedTuple):
    """What new codes were made by.

    Attributes
    ----------
    coders : CoderSet
        What searches them.
    learner : Learner, optional
        The learner with the same coder, where there was one.
    """

    coders: CoderSet
    learner: Learner | None

    @property
    def model(self) -> Model:
        """The learner, or else the coders."""
        return self.learner or self.coders


def reencode_index(
    index: HammingIndex,
    source: Source,
    model: OpenModel,
    *,
    renew: bool = False,
    on_reject: Callable[[Reject], None] = lambda _: None,
) -> Reencoded:
    """Encode all rows of an index by the newest coder of a model.

    Parameters
    ----------
    index : HammingIndex
        Its codes are replaced once all rows are encoded.
    source : Source
        The rows of all its codes, with their ids, and no others.
    model : OpenModel
        What encodes them.
    renew : bool
        Begin a new epoch first, on new landmarks, for which the model must have a learner.
    on_reject : callable, optional
        Called with each row that cannot be used.

    Returns
    -------
    Reencoded
        What the codes were made by.

    Raises
    ------
    InputError
        If the source lacks a row, has a row twice or one that is not in the index, or does not
        fit the model. What is on the disk stays as it was.
    """
    learner = model.learner()
    if renew:
        if learner is None:
            kind = type(model.content).__name__
            raise InputError(f"{model.path} holds {kind}, and only a learner is renewed")
        learner.renew()
    coder = learner.coder() if renew and learner else model.coder
    if (coder.bits, coder.refine) != (index.bits, index.refine or 0):
        raise InputError(
            f"the model {model.path} makes codes of {coder.bits} bits, and those there have "
            f"{index.bits}"
        )
    coders = _encode_all(index, source, model, coder, on_reject)
    return Reencoded(coders, learner and learner.with_coder(coder))


def _encode_all(
    index: HammingIndex,
    source: Source,
    model: OpenModel,
    coder: Coder,
    on_reject: Callable[[Reject], None],
) -> CoderSet:
    coders, every = CoderSet(), concat_ids(ids for ids, _ in index.items())
    sample = Reservoir(coders.size, coder.features.like, inputs=coder.features.inputs)
    encoded = [NO_IDS]

    def batches() -> Iterator[RowBatch]:
        for batch in source.read():
            for reject in batch.rejects:
                on_reject(reject)
            if len(batch.rows):
                model.check_rows(batch.rows.shape[1], source.name)
                sample.update(batch.rows)
                encoded.append(batch.ids)
                yield batch

    reencode(coder, batches(), index)  # all rows of other epochs, and no row that is not there
    missing = np.setdiff1d(every, concat_ids(encoded))
    if len(missing):
        raise InputError(
            f"the source lacks {len(missing)} of the index's rows, among them the id {missing[0]}: "
            f"pass all rows, or remove those ids from the index first"
        )
    if sample.seen:
        coders.record(coder, sample.rows, coder.encode(sample.rows))
    return coders


def write_reencoded(index: HammingIndex, made: Reencoded, out: Path) -> None:
    """Write codes and model to a new folder, which appears whole or not at all."""
    with _new_folder(out) as path:
        folder = JobFolder(path)
        sink = open_sink(folder.codes, index.bits, refine=index.refine or 0)
        for ids, codes in index.items():
            sink.write(ids, codes)
        sink.close()
        save(made.coders, folder.coders_file)
        if made.learner is not None:
            save(made.learner, folder.model_file)


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which is renamed to `out` at the end, unless something went wrong."""
    beside = out.with_name(f".{out.name}.{os.getpid()}.new")
    try:
        beside.mkdir()
        yield beside
        beside.rename(out)
        sync_folder(out.parent)
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
