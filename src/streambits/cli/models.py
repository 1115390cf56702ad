"""Models wherever they lie: a file, or the folder of a job."""

from os.path import lexists, realpath
from pathlib import Path
from typing import Any

from streambits.cli.makers import maker_of
from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.jobs.checkpoint import Checkpoint
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.storage import load

CODERS, MODEL = "coders.safetensors", "model.safetensors"
KEPT = "checkpoint.safetensors"  # of a job that has not finished
NAMES = (CODERS, MODEL, KEPT)
Model = Learner | Coder | CoderSet


def find_model(where: str, given: Path | None, names: tuple[str, ...] = NAMES) -> Path:
    """The file given, or the one in the folder given; else what is in or beside the codes `where`.

    Codes of `streambits encode` are by the model that their folder notes: if that is in the folder
    given it is taken, and if none is given it is looked for.
    """
    around = (Path(where), Path(realpath(where)).parent)
    if given is not None:
        return _of_job(given, around, names) if given.is_dir() else given
    for folder in around:
        maker = maker_of(folder)
        found = maker.find() if maker else _newest(folder, names)
        if found is not None:
            return found
    raise InputError(f"there is no model in or beside {where}: name it with --model")


def _of_job(given: Path, around: tuple[Path, ...], names: tuple[str, ...]) -> Path:
    maker = next(filter(None, map(maker_of, around)), None)
    if maker is None:
        return _inside(given, names)
    if not maker.is_in(given / MODEL):
        raise InputError(
            f"the codes of {maker.folder} were made by {maker.name or 'a model'} "
            f"({maker.content}), and that is not in {given}: leave --model out, or name the file "
            f"of a model to insist"
        )
    return given / MODEL


def _inside(folder: Path, names: tuple[str, ...]) -> Path:
    found = _newest(folder, names)
    if found is None:
        raise StorageError(f"{folder} has no {' or '.join(names)}")
    return found


def _newest(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The first of the files; a checkpoint only if it has seen more rows: then the job goes on.

    By what is in the files, not by their times: those say nothing after a copy.
    """
    there = [folder / name for name in names if lexists(folder / name)]
    ended, kept = [path for path in there if path.name != KEPT], folder / KEPT
    if not ended or (kept in there and _seen(load(kept)) > _seen(load(ended[0]))):
        return kept if kept in there else None
    return ended[0]


def _seen(model: Any) -> int:
    """Rows that it has learned or encoded, by which the models of one job are ordered."""
    if isinstance(model, Checkpoint):
        return max(map(_seen, model.parts.values()), default=-1)
    return model.seen if isinstance(model, Learner | CoderSet) else 0


def open_model(path: Path) -> Model:
    """A learner, a coder or the coders of all epochs."""
    found = load(path)
    if isinstance(found, Checkpoint):
        parts = found.parts
        found = parts["coders"] if "coders" in parts else parts.get("learner")
        if found is None:
            raise InputError(f"{path} has no model: name one with --model")
        if isinstance(found, CoderSet):
            found.store_in(path.parent, load)
    if isinstance(found, HammingIndex):
        raise InputError(f"{path} holds an index, and a model is needed")
    model: Model = found
    return model


def learner_file(path: Path) -> Path:
    """The file itself, or that of the learner in the folder of a job."""
    return _inside(path, (MODEL,)) if path.is_dir() else path


def open_learner(path: Path) -> Learner:
    """A learner, from its file or the folder of its job."""
    path = learner_file(path)
    found = open_model(path)
    if not isinstance(found, Learner):
        raise InputError(f"{path} holds {type(found).__name__}, and a learner is needed")
    return found


def as_coder(model: Model) -> Coder:
    """The coder of the newest epoch."""
    if isinstance(model, CoderSet):
        return model.newest
    return model.coder() if isinstance(model, Learner) else model


def check_width(width: int, coder: Coder, rows: str, path: Path) -> None:
    """Refuse rows of other dimensions than the model's."""
    inputs = coder.features.inputs
    if width != inputs:
        raise InputError(
            f"the rows of {rows} have {width} numbers, and the model {path} was learned from rows "
            f"of {inputs}: use rows and a model of the same dimensions"
        )
