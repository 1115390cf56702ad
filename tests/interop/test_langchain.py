"""The vector store of LangChain: its own standard tests, and that texts and codes stay together."""

import gc
import os
import signal
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from forks import in_child
from streambits.errors import InputError, StorageError
from streambits.interop.documents import Documents
from streambits.interop.langchain import StreambitsVectorStore

MODEL = DeterministicFakeEmbedding(size=24)
SMALL = {"method": "product", "refine": 12, "metric": "cosine", "n_landmarks": 30}  # 300 rows wait


class Vectors(Embeddings):
    """Texts that are numbers, of rows."""

    def __init__(self, rows):
        self.rows = rows

    def embed_documents(self, texts):
        return self.rows[[int(text) for text in texts]].tolist()

    def embed_query(self, text):
        return self.rows[int(text)].tolist()


@pytest.fixture(scope="module")
def many():
    """A store of 1,000 vectors, all of them encoded, and one of LangChain's with the same."""
    rows = np.random.default_rng(0).standard_normal((1000, 24)).astype(np.float32)
    texts, data = [str(i) for i in range(1000)], [{"third": i % 3} for i in range(1000)]
    store = StreambitsVectorStore.from_texts(texts, Vectors(rows), data, ids=texts, **SMALL)
    other = InMemoryVectorStore.from_texts(texts, Vectors(rows), data, ids=texts)
    assert store.index.waiting == 0
    return store, other


def held(store):
    """All documents, by id."""
    return {
        found.id: (found.page_content, found.metadata)
        for found in store.get_by_ids(store._documents.ids())
    }


def check_whole(store):
    """Texts and vectors are of the same documents: each text finds itself."""
    assert len(store) == len(held(store))
    for name, (text, _) in held(store).items():
        assert store.similarity_search_with_score(text, k=1)[0][1] < 0.2  # others: 0.4 and more
        assert text in {d.page_content for d in store.similarity_search(text, k=1)}, name


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"  # LangChain needs its loop


@pytest.mark.anyio  # the plug-in that comes with langchain-core itself runs what is async
class TestStandard(VectorStoreIntegrationTests):
    """What LangChain asks of every vector store, sync and async, in memory and in a folder."""

    @pytest.fixture(params=["memory", "folder"])
    def vectorstore(self, request, tmp_path):
        folder = tmp_path / "store" if request.param == "folder" else None
        with StreambitsVectorStore(self.get_embeddings(), folder) as store:
            yield store


def test_it_finds_what_an_exact_store_finds(many):
    store, other = many
    shared = 0
    for text in map(str, range(0, 1000, 50)):
        ours = [found.id for found in store.similarity_search(text, k=10)]
        exact = [found.id for found in other.similarity_search(text, k=10)]
        assert ours[0] == exact[0] == text
        shared += len(set(ours) & set(exact))
    assert shared > 0.6 * 200  # 12 bytes for 24 columns without any structure


def test_scores_are_distances_and_relevance_goes_from_0_to_1(many):
    store, other = many
    [(first, near), *_, (_, far)] = store.similarity_search_with_score("7", k=5)
    assert (first.id, first.metadata) == ("7", {"third": 1})
    assert near < far
    exact = {d.id: s for d, s in other.similarity_search_with_score("7", k=1000)}
    for document, score in store.similarity_search_with_relevance_scores("7", k=900):
        assert 0 <= score <= 1
        assert abs(score - max(exact[document.id], 0)) < 0.35
    assert len(store.similarity_search_with_relevance_scores("7", k=9, score_threshold=0.8)) == 1


def test_filters(many):
    store, _ = many
    found = store.similarity_search("7", 50, filter={"third": 2})
    assert {document.metadata["third"] for document in found} == {2}
    function = store.similarity_search("7", 50, filter=lambda d: d.metadata["third"] == 2)
    assert function == store.similarity_search("7", 50, filter={"third": 2})
    assert len(store.similarity_search("7", 500, filter={"third": 2})) == 333
    assert store.similarity_search("7", filter={"third": 3}) == []
    assert store.similarity_search("7", filter={"other": 3}) == []
    assert len(store.similarity_search("7", filter={"other": None})) == 4
    with pytest.raises(InputError, match="pass a function"):
        store.similarity_search("7", filter={"third": [2]})


def test_diversity_is_that_of_langchain(many):
    store, other = many
    ours = store.max_marginal_relevance_search("7", k=3, fetch_k=1000, lambda_mult=0.3)
    theirs = other.max_marginal_relevance_search("7", k=3, fetch_k=1000, lambda_mult=0.3)
    assert [d.id for d in ours] == [d.id for d in theirs]
    kept = StreambitsVectorStore.from_texts(["a", "b", "c"], MODEL, keep_rows=True, **SMALL)
    assert len(kept.max_marginal_relevance_search("a", k=2)) == 2
    assert StreambitsVectorStore(MODEL).max_marginal_relevance_search("a") == []


Changes = st.lists(
    st.one_of(
        st.lists(st.tuples(st.sampled_from("abcdef"), st.text("xyz", min_size=1)), max_size=4),
        st.frozensets(st.sampled_from("abcdef"), max_size=3),
        st.none(),
    ),
    max_size=8,
)


@given(Changes)
def test_any_changes_leave_what_a_dict_would_hold(changes):
    store, model = StreambitsVectorStore(MODEL), {}
    for change in changes:
        if change is None:
            store.delete()
            model = {}
        elif isinstance(change, frozenset):
            store.delete(list(change))
            model = {name: text for name, text in model.items() if name not in change}
        else:
            names, texts = [name for name, _ in change], [text for _, text in change]
            assert store.add_texts(texts, ids=names) == names
            model |= dict(change)
    assert {name: text for name, (text, _) in held(store).items()} == model
    check_whole(store)


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_a_store_that_nobody_closes_is_closed_without_a_warning(place, tmp_path):
    folder = tmp_path / "store" if place == "folder" else None
    store = StreambitsVectorStore.from_texts(["one"], MODEL, ids=["a"], folder=folder)
    base = store._documents._base
    del store  # since Python 3.13 SQLite warns of connections that are not closed
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        base.execute("SELECT 1")
    if folder:
        with StreambitsVectorStore(MODEL, folder) as again:
            assert held(again) == {"a": ("one", {})}


def test_a_store_in_a_folder_goes_on(tmp_path):
    with StreambitsVectorStore.from_texts(["one"], MODEL, [{"a": [1]}], folder=tmp_path) as store:
        [name] = [found.id for found in store.similarity_search("one")]
        with pytest.raises(StorageError, match="wait until it is done"):
            StreambitsVectorStore(MODEL, tmp_path)
    with StreambitsVectorStore(MODEL, tmp_path) as store:
        assert store.index.settings.metric == "cosine"
        assert held(store) == {name: ("one", {"a": [1]})}
        store.add_documents([Document(page_content="two", id="2"), Document(page_content="three")])
    with pytest.raises(InputError, match="metric is 'inner', and the index in"):
        StreambitsVectorStore(MODEL, tmp_path, metric="inner")
    with StreambitsVectorStore(MODEL, tmp_path, metric="cosine") as store:
        assert len(store) == 3
        check_whole(store)
    assert (tmp_path / "documents.sqlite").stat().st_mode & 0o077 == 0


def test_what_is_refused_changes_nothing(tmp_path):
    store = StreambitsVectorStore.from_texts(["one"], MODEL, ids=["1"], folder=tmp_path)
    before = held(store)
    for arguments, message in (
        ({"texts": ["a", "b"], "ids": ["1"]}, "1 ids for 2 texts"),
        ({"texts": ["a"], "metadatas": []}, "0 metadatas for 1 texts"),
        ({"texts": ["a"], "ids": ["1"], "colour": 3}, "colour"),
        ({"texts": ["a"], "ids": ["1"], "metadatas": [{"a": {1}}]}, "document '1' are not JSON"),
        ({"texts": ["a"], "ids": ["1"], "metadatas": [{"a": np.nan}]}, "not JSON"),
        ({"texts": ["a"], "ids": ["1"], "metadatas": [{"a": (1,)}]}, "not JSON"),
        ({"texts": ["a"], "ids": ["\ud800"]}, "not valid Unicode"),
    ):
        with pytest.raises(InputError, match=message):
            store.add_texts(**arguments)
        assert held(store) == before
    with pytest.raises(InputError, match="24"):
        store.similarity_search_by_vector([1.0])
    store._embedding = DeterministicFakeEmbedding(size=5)
    with pytest.raises(InputError, match="24"):
        store.add_texts(["a"], ids=["1"])
    store._embedding = MODEL
    assert held(store) == before
    check_whole(store)
    store.add_texts(["two"], ids=["1"])
    assert held(store) == {"1": ("two", {})}
    with pytest.raises(InputError, match="default settings"):
        StreambitsVectorStore(MODEL, bits=16).similarity_search_with_relevance_scores("one")


def test_folders_that_are_no_stores(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="is a file"):
        StreambitsVectorStore(MODEL, tmp_path / "file")
    with pytest.raises(StorageError, match="something else in"):
        StreambitsVectorStore(MODEL, tmp_path)
    folder = tmp_path / "store"
    StreambitsVectorStore.from_texts(["one"], MODEL, folder=folder).close()
    base = folder / "documents.sqlite"
    good = base.read_bytes()
    base.write_bytes(b"rubbish" * 1000)
    with pytest.raises(StorageError, match=r"documents\.sqlite cannot be used"):
        StreambitsVectorStore(MODEL, folder)
    base.unlink()
    with pytest.raises(StorageError, match="0 documents and the index 1 vectors"):
        StreambitsVectorStore(MODEL, folder)
    base.write_bytes(good)
    with sqlite3.connect(base) as newer:
        newer.execute("PRAGMA user_version = 2")
    newer.close()
    with pytest.raises(StorageError, match="of format 2"):
        StreambitsVectorStore(MODEL, folder)


@pytest.mark.parametrize("moment", ["announced", "made"])
@pytest.mark.parametrize("what", ["replace", "add", "remove"])
def test_killed_between_the_two_files(tmp_path, moment, what, monkeypatch):
    StreambitsVectorStore.from_texts(
        ["one", "two"], MODEL, ids=["1", "2"], folder=tmp_path, **SMALL
    ).close()

    def child():
        store = StreambitsVectorStore(MODEL, tmp_path)
        announce = Documents.announce
        if moment == "announced":
            Documents.announce = lambda *a: (announce(*a), os.kill(os.getpid(), signal.SIGKILL))
        else:
            Documents.settle = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        if what == "remove":
            store.delete(["1"])
        else:
            store.add_texts(["new"], ids=["1" if what == "replace" else "3"])

    assert in_child(child) == "failed"
    before, made = {"1": "one", "2": "two"}, moment == "made"
    after = {
        "replace": before | {"1": "new"},
        "add": before | {"3": "new"},
        "remove": {"2": "two"},
    }[what]
    with StreambitsVectorStore(MODEL, tmp_path) as store:
        found = {name: text for name, (text, _) in held(store).items()}
        assert found == (after if made else before)
        check_whole(store)
        store.add_texts(["four"], ids=["4"])
        assert len(store) == len(found) + 1


def test_the_indexing_of_langchain():
    store = StreambitsVectorStore(MODEL)
    manager = InMemoryRecordManager("tests")
    manager.create_schema()
    documents = [Document(page_content=text, metadata={"source": text}) for text in "abc"]
    options = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
    assert index(documents, manager, store, **options)["num_added"] == 3
    again = index(documents[:2], manager, store, **options)
    assert (again["num_skipped"], again["num_deleted"], len(store)) == (2, 1, 2)


def test_filters_of_keys_that_json_escapes():
    keys = ["größe", "a b", 'a"b', "a\\b", "日本", ""]
    store = StreambitsVectorStore(MODEL)
    store.add_texts(["one", "two"], [dict.fromkeys(keys, 4), {}], ids=["one", "two"])
    for key in keys:
        assert [d.id for d in store.similarity_search("x", filter={key: 4})] == ["one"]
        assert [d.id for d in store.similarity_search("x", filter={key: None})] == ["two"]
        assert store.similarity_search("x", filter={key: 5}) == []
    with pytest.raises(InputError, match="under a text"):
        store.similarity_search("x", filter={7: 4})
