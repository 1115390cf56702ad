"""Models wherever they lie: a file, or the folder of a job; and the model that made some codes.

Of a job that has ended, the learner and the coders agree: their newest coder is the one that made
the last codes of the job.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os.path import lexists, realpath
from pathlib import Path
from typing import NamedTuple

from streambits.epochs.coder_set import CoderSet, newest_coder
from streambits.errors import InputError, MergeError, StorageError
from streambits.jobs.folder import Checkpoint, JobFolder
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.storage import digest, load, opened

Model = Learner | Coder | CoderSet


@dataclass(frozen=True)
class OpenModel:
    """A model, and where it was found.

    Attributes
    ----------
    path : Path
        Its file; of a job that has not ended, the checkpoint.
    digest : str
        Identifies what the file holds.
    content : Learner, Coder or CoderSet
        What the file holds.
    beside : Learner or Path, optional
        The learner of the same job, or its file.
    commit : Checkpoint, optional
        The last commit of its job, where it is the folder of one.
    """

    path: Path
    digest: str
    content: Model
    beside: Learner | Path | None = None
    commit: Checkpoint | None = None

    @property
    def coder(self) -> Coder:
        """The coder of the newest epoch."""
        return newest_coder(self.content)

    @property
    def coders(self) -> CoderSet | Coder:
        """The coders of all epochs, where they are known."""
        return self.content if isinstance(self.content, CoderSet) else self.coder

    @property
    def live(self) -> bool:
        """Whether it is the checkpoint of a job, which the next commit replaces."""
        return self.path.name == JobFolder(self.path.parent).checkpoint_file.name

    def learner(self) -> Learner | None:
        """What can go on learning, where it was kept."""
        if isinstance(self.content, Learner):
            return self.content
        found = load(self.beside) if isinstance(self.beside, Path) else self.beside
        return found if isinstance(found, Learner) else None

    def check_rows(self, width: int, rows: str) -> None:
        """Refuse rows of other dimensions than the model's. rows: their name."""
        inputs = self.coder.features.inputs
        if width != inputs:
            raise InputError(
                f"the rows of {rows} have {width} numbers, and the model {self.path} was learned "
                f"from rows of {inputs}: use rows and a model of the same dimensions"
            )

    @property
    def _seen(self) -> int:
        """Rows learned or encoded, by which the models of one job are ordered."""
        return self.content.seen if isinstance(self.content, Learner | CoderSet) else 0


def open_model(path: str | Path) -> OpenModel:
    """Open the file of a model, or the model that the folder of a job stands for.

    A folder stands for the coders of its codes: of an online job the coders of all its epochs,
    of a job that only learned its learner. While a job goes on, that is what was committed last.

    Parameters
    ----------
    path : path
        A learner, a coder, coders, a checkpoint, or a folder of a job.

    Raises
    ------
    StorageError
        If there is no model, or it is damaged.
    InputError
        If the file holds something else.
    """
    path = Path(path)
    if not path.is_dir():
        return _open(path)
    found = _newest(JobFolder(path))
    if found is None:
        names = [file.name for file in (*_ended(JobFolder(path)), JobFolder(path).checkpoint_file)]
        raise StorageError(f"{path} has no {' or '.join(names)}")
    return found


def open_model_of(codes: str | Path, model: str | Path | None = None) -> OpenModel:
    """Open the model that made some codes.

    Parameters
    ----------
    codes : path
        The folder of a job, codes or an index. What lies in it or beside it is looked at.
    model : path, optional
        A file is opened as it is named. A folder of a job is refused if the folder of the codes
        has recorded that another model made them.

    Raises
    ------
    InputError
        If there is no model, or the one that is recorded is gone, has changed or is not there.
    """
    around = (Path(codes), Path(realpath(codes)).parent)
    if model is not None:
        maker = next(filter(None, map(maker_of, around)), None)
        insisted = maker is None or not Path(model).is_dir()
        return open_model(model) if maker is None or insisted else maker.open_in(Path(model))
    for folder in around:
        maker = maker_of(folder)
        found = maker.open() if maker else _newest(JobFolder(folder))
        if found is not None:
            return found
    raise InputError(f"there is no model in or beside {codes}: name it with --model")


def merge_models(paths: Sequence[str | Path]) -> Learner:
    """Merge the learners of shards into one, as if it had seen all their rows.

    Parameters
    ----------
    paths : sequence of paths
        Files of learners, or folders of jobs.

    Raises
    ------
    MergeError
        If a model is there twice, or two do not fit each other.
    """
    names: dict[str, Path] = {}
    for path in map(Path, paths):
        other = names.setdefault(digest(learner_file(path)), path)
        if other is not path:
            raise MergeError(
                f"{path} is a copy of {other}, and its rows would count twice: name each shard once"
            )
    first, *others = map(Path, paths)
    whole = _open_learner(first)
    for path in others:
        try:
            whole.merge(_open_learner(path))
        except MergeError as error:
            raise MergeError(
                f"{path} does not fit {first}: {error}. Shards that share landmarks are made by "
                f"streambits learn --like {first}"
            ) from error
    return whole


def open_learner(path: str | Path) -> tuple[Learner, OpenModel]:
    """Open a learner that is to go on, and where it was found.

    Parameters
    ----------
    path : path
        A file, or the folder of a job that has ended or was stopped.

    Raises
    ------
    InputError
        If there is no learner, or the job goes on, whose next commit would replace it.
    """
    found = open_model(path)
    learner = found.learner()
    if learner is None:
        kind = type(found.content).__name__
        raise InputError(f"{found.path} holds {_article(kind)}, and only a learner goes on")
    if Path(path).is_dir() and JobFolder(path).running:
        raise InputError(
            f"the job in {path} goes on, and its next commit replaces the model: wait until it "
            f"has ended, or stop it"
        )
    return learner, found


def learner_file(path: Path) -> Path:
    """The file itself, or that of the learner in the folder of a job."""
    file = JobFolder(path).model_file if path.is_dir() else path
    if path.is_dir() and not lexists(file):
        raise StorageError(f"{path} has no {file.name}")
    return file


def _open_learner(path: Path) -> Learner:
    found = _open(learner_file(path))
    if not isinstance(found.content, Learner):
        kind = type(found.content).__name__
        raise InputError(f"{found.path} holds {kind}, and a learner is needed")
    return found.content


class Maker(NamedTuple):
    """The model that made the codes of a folder, as `streambits encode` has recorded it.

    Attributes
    ----------
    folder : Path
        Of the codes.
    digest : str
        Of the file of the model.
    name : str, optional
        Its path as the user typed it.
    """

    folder: Path
    digest: str
    name: str | None = None

    def open(self) -> OpenModel:
        """Open it: by its path from here, from the folder or from beside it; or in or beside it."""
        near = (self.folder, Path(realpath(self.folder)).parent)
        typed = [start / self.name for start in (Path(), *near) if self.name]
        for path in (*typed, *near):
            if found := self._in(path):
                return found
        raise self._lost(next((file for path in typed for file in _files(path)), None))

    def open_in(self, folder: Path) -> OpenModel:
        """Open it in the folder of a job; refuse that if it is not there."""
        found = self._in(folder)
        if found is None:
            raise InputError(
                f"the codes of {self.folder} were made by {self.name or 'a model'} "
                f"({self.digest}), and that is not in {folder}: leave --model out, or name the "
                f"file of a model to insist"
            )
        return found

    def _in(self, path: Path) -> OpenModel | None:
        """The model, if that is its file, as it was, or a folder that has it."""
        folder = JobFolder(path) if path.is_dir() else None
        same = (_open(file, folder) for file in _files(path) if digest(file) == self.digest)
        return next(same, None)

    def _lost(self, changed: Path | None) -> InputError:
        what = f"{self.name or 'a model'} ({self.digest}), which is not there: name where it is"
        if changed is not None:
            now = f"{self.digest} then, {digest(changed)} now"
            what = f"{changed}, which has changed ({now}): name a copy from then"
        return InputError(
            f"the codes of {self.folder} were made by {what} (--model), or encode the rows again"
        )


def maker_of(folder: Path) -> Maker | None:
    """The model that made the codes in a folder, if `streambits encode` made them and says so.

    A description that cannot be read is an error in the folder of a job; elsewhere it is that of
    somebody else.
    """
    held = JobFolder(folder)
    try:
        job = (held.description() if folder.is_dir() else None) or {}
    except StorageError:
        if held.checkpoint_file.exists():
            raise
        return None
    found, name = (_text(job.get(group), "model") for group in ("settings", "names"))
    return Maker(folder, found, name) if job.get("verb") == "encode" and found else None


def _text(group: object, name: str) -> str | None:
    found = group.get(name) if isinstance(group, dict) else None
    return found if isinstance(found, str) else None


def _ended(folder: JobFolder) -> tuple[Path, Path]:
    """The files of a job that has ended, the coders of its codes first."""
    return folder.coders_file, folder.model_file


def _files(path: Path) -> Iterator[Path]:
    """The files of models that a path can mean."""
    files = _ended(JobFolder(path)) if path.is_dir() else (path,)
    return (file for file in files if file.is_file())


def _newest(folder: JobFolder) -> OpenModel | None:
    """The model that a folder stands for: a checkpoint only if it has seen more rows.

    By what is in the files, not by their times: those mean nothing after a copy.
    """
    ended = next((_open(file, folder) for file in _ended(folder) if lexists(file)), None)
    if not lexists(folder.checkpoint_file):
        return ended
    last = folder.checkpoint()
    if ended is not None and (last is None or not last.models):
        return ended
    live = _open(folder.checkpoint_file)
    if ended is None or live._seen > ended._seen:
        return live
    return replace(ended, commit=live.commit)


def _open(file: Path, folder: JobFolder | None = None) -> OpenModel:
    """Open a file. folder: of the job that it belongs to, which may have a learner beside it."""
    content, digest_ = opened(file)
    beside = folder.model_file if folder and lexists(folder.model_file) else None
    commit = content if isinstance(content, Checkpoint) else None
    if commit is not None:
        held = commit.models
        beside, content = held.get("learner"), held.get("coders", held.get("learner"))
        if content is None:
            raise InputError(
                f"{file} has no model yet, as its job has not committed any rows: try again when "
                f"it has, or name one with --model"
            )
        if isinstance(content, CoderSet):
            content.store_in(file.parent, load)
    if not isinstance(content, Model):
        raise InputError(
            f"{file} holds {_article(type(content).__name__)}, and a model is needed: name a "
            f"learner or a coder"
        )
    return OpenModel(file, digest_, content, beside, commit)


def _article(kind: str) -> str:
    return "an index" if kind == "HammingIndex" else f"a {kind}"
