"""LangChain: documents beside a `StreamIndex`, as a vector store."""

import json
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_count
from streambits._files import make_folder
from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.index_folder import CURRENT
from streambits.interop.documents import Documents, Stored, as_json
from streambits.methods.settings import Settings
from streambits.stream_index import StreamIndex

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
except ImportError:
    raise MissingExtraError("langchain-core", "langchain") from None

__all__ = ["StreambitsVectorStore"]

DEFAULT = {"method": "product", "refine": 48, "metric": "cosine"}
DATABASE, INDEX = "documents.sqlite", "index"  # in the folder of a store
NOTE = "document change"  # the key of our notes in the index
K, FETCHED, MIXED = 4, 20, 0.5  # LangChain's own defaults
Filter = dict[str, Any] | Callable[[Document], bool]


class StreambitsVectorStore(VectorStore):
    """A LangChain vector store over a `StreamIndex`: texts in, documents out, 48 bytes per text.

    Parameters
    ----------
    embedding : Embeddings
        The model that makes vectors of texts. It is not saved: open a store with the same model.
    folder : str or Path, optional
        Where the store is, or begins. Without it, all is in memory, and gone at the end.
    settings : Settings, optional
        How vectors are learned. By default product codes of 48 bytes by `metric="cosine"`. A store
        that is there has its own; others than those are refused.
    keep_rows : bool, default False
        Whether vectors are kept beside the codes, so that searches can rank by them (`rerank`).
    **more
        Settings by keyword, in place of `settings`.

    Attributes
    ----------
    index : StreamIndex
        To be read, and searched by vectors. Change it by the store alone.

    Raises
    ------
    StorageError
        If another process has the store open, or a file is damaged.

    Notes
    -----
    The index holds codes; texts and metadata are in SQLite beside it (`documents.sqlite`).
    Every call that has returned survives whatever ends the process, in a folder; one that raises,
    or does not return, has changed nothing. One process opens a folder; its threads may all search
    and change the store, changes one after another. A call of `add_texts` is one change, all of
    whose vectors are in memory: add very many texts in several calls.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> store = StreambitsVectorStore(DeterministicFakeEmbedding(size=32))
    >>> store.add_texts(["a fox", "a hen"], [{"legs": 4}, {"legs": 2}], ids=["fox", "hen"])
    ['fox', 'hen']
    >>> [document.id for document in store.similarity_search("a hen", k=1)]
    ['hen']
    >>> [document.id for document in store.similarity_search("a hen", filter={"legs": 4})]
    ['fox']
    """

    def __init__(
        self,
        embedding: Embeddings,
        folder: str | Path | None = None,
        settings: Settings | None = None,
        *,
        keep_rows: bool = False,
        **more: Any,
    ) -> None:
        self._embedding = embedding
        self._changes = threading.RLock()
        place = None if folder is None else Path(folder)
        if settings is None and not more and not (place and (place / INDEX / CURRENT).exists()):
            more = dict(DEFAULT)
        if place is None:
            self.index = StreamIndex(settings, keep_rows=keep_rows, **more)
        else:
            _check_folder(place)
            make_folder(place)
            self.index = StreamIndex.open(place / INDEX, settings, keep_rows=keep_rows, **more)
        try:
            self._documents = Documents(None if place is None else place / DATABASE)
            self._documents.settle(self._made())
            self._check_equal()
        except BaseException:
            self.close()
            raise

    def _made(self) -> int:
        """The number of the last change that the index has made."""
        note = self.index.note
        return int(note[NOTE]) if isinstance(note, dict) and NOTE in note else 0

    def _check_equal(self) -> None:
        if len(self.index) != len(self._documents):
            raise StorageError(
                f"the store has {len(self._documents)} documents and the index {len(self.index)} "
                f"vectors: the index was changed by other means; add the documents to a new store"
            )

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Begin a store with texts.

        Parameters
        ----------
        texts, metadatas, ids
            As for `add_texts`.
        embedding, **kwargs
            As for the class.

        Returns
        -------
        StreambitsVectorStore
        """
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @property
    def embeddings(self) -> Embeddings:
        """The model that makes vectors of texts."""
        return self._embedding

    def close(self) -> None:
        """Close the files; the store is not to be used after that."""
        with self._changes:
            self.index.close()
            if hasattr(self, "_documents"):
                self._documents.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.index)

    # Changes

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str | None] | list[str] | None = None,
        batch_size: int | None = None,  # noqa: ARG002 - LangChain's indexing passes it
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, or replace those of the same ids.

        Parameters
        ----------
        texts : iterable of str
        metadatas : list of dict, optional
            One per text; what JSON can hold.
        ids : list of str, optional
            One per text; a new one is made where it is None. Of an id that comes twice, the last
            text counts.
        batch_size : int, optional
            Has no effect: a call is one change.

        Returns
        -------
        list of str
            The ids, in the order of the texts.

        Raises
        ------
        InputError
            If there are not as many of each, an argument is unknown, or metadata are not JSON.
        """
        _check_known(kwargs)
        found = list(texts)
        for name, others in (("metadatas", metadatas), ("ids", ids)):
            if others is not None and len(others) != len(found):
                raise InputError(f"there are {len(others)} {name} for {len(found)} texts")
        names = [name or str(uuid.uuid4()) for name in ids or [None] * len(found)]
        held = [as_json(m, name) for m, name in zip(metadatas or [{}] * len(found), names)]
        if found:
            vectors = np.asarray(self._embedding.embed_documents(found), np.float32)
            # of an id that comes twice the last counts, as in the index
            rows = {n: Stored(n, text, data) for n, text, data in zip(names, found, held)}
            self._change(
                list(rows.values()), lambda note: self.index.add(vectors, names, note=note)
            )
        return names

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Remove documents.

        Parameters
        ----------
        ids : list of str, optional
            Those that are not here do not matter. None: all documents.

        Returns
        -------
        bool
            True, once they are gone.
        """
        _check_known(kwargs)
        with self._changes:
            names = self._documents.ids() if ids is None else list(dict.fromkeys(ids))
            if names:
                gone = [Stored(name) for name in names]
                self._change(gone, lambda note: self.index.remove(names, note=note))
        return True

    def _change(self, rows: Sequence[Stored], make: Callable[[Any], Any]) -> None:
        """Change documents and index together; a text of None is removed."""
        with self._changes:
            number = self._documents.announce(rows, self._made())
            try:
                make({NOTE: number})
            finally:
                self._documents.settle(self._made())

    # Reading

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents of ids, those that are here, in the order of the ids."""
        found = self._documents.get(list(dict.fromkeys(ids)), self._made())
        return [_document(one) for one in found]

    def similarity_search(self, query: str, k: int = K, **kwargs: Any) -> list[Document]:
        """Find the documents nearest to a text.

        Parameters
        ----------
        query : str
        k : int, default 4
        **kwargs
            As for `similarity_search_with_score_by_vector`.

        Returns
        -------
        list of Document
            The nearest first.
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = K, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Find the documents nearest to a text, and their distances.

        Parameters
        ----------
        query, k, **kwargs
            As for `similarity_search`.

        Returns
        -------
        list of (Document, float)
            The nearest first. A score is a distance by the metric of the index: with "cosine", one
            less the cosine.
        """
        vector = self._embedding.embed_query(query)
        return self.similarity_search_with_score_by_vector(vector, k, **kwargs)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = K, **kwargs: Any
    ) -> list[Document]:
        """Find the documents nearest to a vector; as `similarity_search`."""
        found = self.similarity_search_with_score_by_vector(embedding, k, **kwargs)
        return [document for document, _ in found]

    def similarity_search_with_score_by_vector(
        self,
        embedding: list[float],
        k: int = K,
        *,
        filter: Filter | None = None,  # noqa: A002 - LangChain's name
        **options: Any,
    ) -> list[tuple[Document, float]]:
        """Find the documents nearest to a vector, and their distances.

        Parameters
        ----------
        embedding : list of float
        k : int, default 4
        filter : dict or callable, optional
            Which documents may be found: values that the metadata must have, texts, numbers,
            booleans or None, under keys of the first level; or a function of a document, which is
            called with all of them.
        **options
            `candidates`, `rerank`, `exact` and others of `StreamIndex.search`.

        Returns
        -------
        list of (Document, float)
        """
        count = as_count(k, "k")
        if filter is not None:
            allowed = self._documents.matching(_of_stored(filter))
            if not allowed:
                return []
            options["allow"] = allowed
        if not len(self.index):
            return []
        asked = np.asarray(embedding, np.float32)[None, :]
        hits = self.index.search(asked, count, **options)
        documents = {document.id: document for document in self.get_by_ids(hits.ids[0].tolist())}
        pairs = zip(hits.ids[0].tolist(), hits.distances[0].tolist(), strict=True)
        return [(documents[name], far) for name, far in pairs if name in documents]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = K,
        fetch_k: int = FETCHED,
        lambda_mult: float = MIXED,
        **kwargs: Any,
    ) -> list[Document]:
        """Find documents that are near to a text and not too near to each other.

        Parameters
        ----------
        query : str
        k : int, default 4
        fetch_k : int, default 20
            Nearest documents to choose from.
        lambda_mult : float, default 0.5
            1: nearness alone; 0: diversity alone.
        **kwargs
            As for `similarity_search`.

        Returns
        -------
        list of Document

        Notes
        -----
        Where vectors are not kept, those of the `fetch_k` texts are made again by the model.
        """
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, **kwargs
        )

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = K,
        fetch_k: int = FETCHED,
        lambda_mult: float = MIXED,
        **kwargs: Any,
    ) -> list[Document]:
        """Find documents as `max_marginal_relevance_search`, near to a vector."""
        found = self.similarity_search_by_vector(embedding, max(k, fetch_k), **kwargs)
        if not found:
            return []
        if self.index.keep_rows:
            vectors: NDArray[Any] = self.index.rows([document.id for document in found])
        else:
            texts = [document.page_content for document in found]
            vectors = np.asarray(self._embedding.embed_documents(texts))
        asked = np.asarray(embedding)
        chosen = maximal_marginal_relevance(asked, list(vectors), lambda_mult, as_count(k, "k"))
        return [found[place] for place in chosen]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        metric = self.index.settings.metric
        if metric != "cosine" or not self.index.settings.refinement_bytes:
            raise InputError(
                f"relevance from 0 to 1 needs codes that decode, by metric 'cosine'; the metric "
                f"of this store is {metric!r}, with {self.index.settings.refinement_bytes} bytes "
                f"of refinement: use distances, or begin a store with its default settings"
            )
        return lambda far: min(max(1.0 - far, 0.0), 1.0)


def _document(held: Stored) -> Document:
    metadata = json.loads(held.metadata or "{}")
    return Document(id=held.id, page_content=held.text or "", metadata=metadata)


def _of_stored(wanted: Filter) -> dict[str, Any] | Callable[[Stored], bool]:
    return (lambda held: wanted(_document(held))) if callable(wanted) else wanted


def _check_known(options: dict[str, Any]) -> None:
    if options:
        raise InputError(f"{', '.join(options)}: there is no such argument")


def _check_folder(place: Path) -> None:
    """Refuse a folder of something else, and one whose documents are gone."""
    if place.is_file():
        raise StorageError(f"{place} is a file, and not the folder of a store")
    held = {path.name for path in place.iterdir()} if place.exists() else set()
    if held and INDEX not in held:
        raise StorageError(f"there is something else in {place}: {sorted(held)[0]}")
