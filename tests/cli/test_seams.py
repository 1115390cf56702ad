"""Where jobs, models and files meet: what users type first, each case as a stranger met it."""

import json

import numpy as np
import pytest
from pyarrow import parquet

import streambits as sb
from streambits.io.codes import open_codes, open_sink
from streambits.io.rows import open_source
from streambits.jobs.folder import JobFolder
from streambits.jobs.job import Job
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Online

SETTINGS = ("--bits", 16, "--set", "n_landmarks=40", "--set", "epochs=never", "--set", "quiet=true")


@pytest.fixture
def done(command):
    """done(*arguments): a command that must succeed."""

    def done(*arguments, **more):
        found = command(*arguments, **more)
        assert found.code == 0, found.err
        return found

    return done


@pytest.fixture
def folder(tmp_path):
    """A folder of vectors that can grow: folder(name, rows)."""
    (tmp_path / "vectors").mkdir()

    def add(name, rows):
        np.save(tmp_path / "vectors" / name, rows)
        return tmp_path / "vectors"

    return add


def as_csv(rows):
    return "\n".join(",".join(map(str, row)) for row in rows.tolist()).encode() + b"\n"


def as_jsonl(items):
    return "".join(json.dumps(item) + "\n" for item in items)


def codes_in(where):
    return {
        i: bytes(c) for ids, codes in open_codes(where) for i, c in zip(ids.tolist(), codes.packed)
    }


# Continue


@pytest.mark.parametrize("second", [slice(1500), slice(1000, 1300)])
def test_standard_input_is_not_resumed_and_the_ways_out_are_named(
    second, done, fails, rows, tmp_path
):
    job = ("online", "-", *SETTINGS, "--out", tmp_path / "job")
    done(*job, stdin=as_csv(rows[:1000]))
    before = codes_in(tmp_path / "job")
    said = fails(*job, stdin=as_csv(rows[second]))
    assert "standard input" in said
    assert "--from" in said
    assert "another folder" in said
    assert codes_in(tmp_path / "job") == before


@pytest.mark.parametrize("verb", ["online", "learn"])
def test_a_folder_grows_between_runs(verb, done, folder, *, rows, tmp_path, fails):
    where = folder("b.npy", rows[:900])
    job = (verb, where, *SETTINGS, "--out", tmp_path / "job")
    done(*job)
    folder("c.npy", rows[900:1600])
    folder("a.npy", rows[1600:2000])  # it sorts before, and comes after what was read
    found = done(*job, "--json").json
    assert (found["rows"], found["new_rows"]) == (2000, 1100)
    assert done(*job, "--json").json["new_rows"] == 0
    if verb == "online":
        assert sorted(codes_in(tmp_path / "job")) == list(range(2000))
    folder("b.npy", rows[:900] + 1)
    assert "b.npy" in fails(*job)


def test_learning_goes_on_from_a_model(done, rows, tmp_path, misused, fails):
    np.save(tmp_path / "a.npy", rows[:3000])
    np.save(tmp_path / "b.npy", rows[3000:])
    done("learn", tmp_path / "a.npy", *SETTINGS, "--out", tmp_path / "first")
    further = ("learn", tmp_path / "b.npy", "--from", tmp_path / "first", "--set", "quiet=true")
    done(*further, "--out", tmp_path / "second")
    done(*further, "--out", tmp_path / "second")  # and it resumes
    model = sb.load(tmp_path / "second" / "model.safetensors")
    assert model.seen == len(rows)
    whole = sb.load(tmp_path / "first" / "model.safetensors").learn(rows[3000:])
    assert model.coder().encode(rows) == whole.coder().encode(rows)
    said = misused(*further, "--bits", 32, "--out", tmp_path / "third")
    assert "bits is that of the model" in said
    np.save(tmp_path / "c.npy", rows[:, :3])
    said = fails("learn", tmp_path / "c.npy", "--from", tmp_path / "first", "--out", tmp_path / "x")
    assert "3" in said
    assert "8" in said


def test_shards_from_the_command_line_merge(done, fails, rows, tmp_path):
    parts = np.array_split(rows, 3)
    for number, part in enumerate(parts):
        np.save(tmp_path / f"{number}.npy", part)
    done("learn", tmp_path / "0.npy", *SETTINGS, "--out", tmp_path / "s0")
    for number in (1, 2):
        like = ("--like", tmp_path / "s0", "--set", "quiet=true")
        done("learn", tmp_path / f"{number}.npy", *like, "--out", tmp_path / f"s{number}")
    shards = [tmp_path / f"s{number}" for number in range(3)]
    done("merge", *shards, "--out", tmp_path / "all.safetensors")
    merged = sb.load(tmp_path / "all.safetensors")
    assert merged.seen == len(rows)
    whole = sb.load(tmp_path / "s0" / "model.safetensors").learn(np.concatenate(parts[1:]))
    same = merged.coder().encode(rows).unpack() == whole.coder().encode(rows).unpack()
    assert same.mean() > 0.99  # sums in another order
    done("learn", tmp_path / "1.npy", *SETTINGS, "--out", tmp_path / "other")
    said = fails("merge", tmp_path / "s0", tmp_path / "other", "--out", tmp_path / "x.safetensors")
    assert "streambits learn --like" in said


# Deletes, updates, payload and ids

NAMES = {
    "short": [f"doc-{i}" for i in range(300)],
    "uuid": [f"{i:08x}-9b1d-4c7f-8a2e-0f1e2d3c4b5a" for i in range(300)],
}


def documents(rows, names):
    return [
        {"id": name, "embedding": row, "text": f"text {i}", "page": i, "url": None}
        for i, (name, row) in enumerate(zip(names, rows.tolist()))
    ]


@pytest.mark.parametrize("kind", NAMES)
def test_documents_with_text_ids_deletes_and_payload(kind, done, fails, rows, *, tmp_path):
    names = NAMES[kind]
    items = documents(rows, names)
    items += [{"id": names[i], "embedding": None} for i in range(0, 300, 3)]
    items += [items[3] | {"embedding": rows[400].tolist(), "text": "again"}]
    (tmp_path / "docs.jsonl").write_text(as_jsonl(items))
    job = tmp_path / "job"
    more = ("--ids", "id", "--columns", "embedding", "--keep", "text,page,url", "--json")
    found = done("online", tmp_path / "docs.jsonl", *SETTINGS, *more, "--out", job).json
    assert (found["rows"], found["removed"]) == (301, 100)
    left = {names[i] for i in range(300) if i % 3} | {names[3]}
    assert set(codes_in(job)) == left
    table = parquet.read_table(job / "codes").to_pydict()
    kept = dict(zip(table["id"], zip(table["text"], table["page"], table["url"])))
    assert kept[names[1]] == ("text 1", "1", None)
    assert kept[names[3]] == ("again", "3", None)
    np.save(tmp_path / "q.npy", rows[[1, 400]])
    ask = ("search", job, "--query", tmp_path / "q.npy", "-k", 1)
    answers = done(*ask).lines
    assert [answer["ids"] for answer in answers] == [[names[1]], [names[3]]]
    allowed = done(*ask, "--allow", ",".join(names[4:6])).lines
    assert all(answer["ids"][0] in names[4:6] for answer in allowed)
    again = (*ask, "--rerank", tmp_path / "docs.jsonl")
    answers = done(*again, "--set", "rerank_ids=id").lines
    assert [answer["ids"] for answer in answers] == [[names[1]], [names[3]]]
    assert [answer["distances"] for answer in answers] == [[0], [0]]
    assert "--set rerank_ids=id" in fails(*again)


AGAIN = """
SELECT near.id FROM (
    SELECT TABLE_.id FROM TABLE_ ORDER BY code <~> %s::bit(16), id LIMIT 100
) AS near JOIN vectors_TABLE_ USING (id)
ORDER BY embedding <-> %s::vector, near.id LIMIT 10
"""


def test_ranking_in_sql_gives_the_ten_of_search_and_other_models_are_refused(
    done, fails, postgres_url, table, *, rows, tmp_path
):
    name, ask = table
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "q.npy", rows[:20] + 0.05)
    for seed in (0, 1):
        out = ("--set", f"seed={seed}", "--out", tmp_path / f"model{seed}")
        done("learn", tmp_path / "rows.npy", *SETTINGS, *out)
    encode = ("encode", tmp_path / "model0", tmp_path / "rows.npy", "--set", "quiet=true")
    target = ("--to", f"{postgres_url}?table={name}")
    done(*encode, "--out", tmp_path / "files")
    done(*encode, *target, "--out", tmp_path / "table")
    said = fails("encode", tmp_path / "model1", *encode[2:], *target, "--out", tmp_path / "no")
    assert "would not compare to them: name another table" in said
    ask("CREATE TABLE vectors_TABLE_ (id bigint PRIMARY KEY, embedding vector)")
    try:
        lines = ", ".join(f"({i}, '{row}')" for i, row in enumerate(rows.tolist()))
        ask(f"INSERT INTO vectors_TABLE_ VALUES {lines}")
        queries = (
            "--query",
            tmp_path / "q.npy",
            "--set",
            "real=false",
            "--rerank",
            tmp_path / "rows.npy",
        )
        ours = done("search", tmp_path / "files", *queries).lines
        asked = done("encode", tmp_path / "model0", tmp_path / "q.npy", "--bit-strings").lines
        for answer, query, row in zip(ours, asked, np.load(tmp_path / "q.npy").tolist()):
            found = ask(AGAIN, [query["bits"], str(row)])
            assert [key for (key,) in found] == answer["ids"]
    finally:
        ask("DROP TABLE vectors_TABLE_")
    assert ask("SELECT count(*) FROM TABLE_") == [(len(rows),)]


# Are so many bits enough for these rows?


# What makes no sense is noticed


@pytest.mark.filterwarnings("default::streambits.errors.ReachWarning")
def test_rows_of_another_scale_are_refused_and_a_few_are_counted(done, fails, rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "far.npy", rows * 200)
    mixed = rows.copy()
    mixed[::10] *= 200
    np.save(tmp_path / "mixed.npy", mixed)
    method = ("--set", "method=ssbc")
    done("online", tmp_path / "rows.npy", *SETTINGS, *method, "--out", tmp_path / "job")
    said = fails("encode", tmp_path / "job", tmp_path / "far.npy", "--out", tmp_path / "x")
    assert "out of reach" in said
    assert "--set out_of_reach=accept" in said
    accepted = ("--set", "out_of_reach=accept", "--json", "--out", tmp_path / "y")
    found = done("encode", tmp_path / "job", tmp_path / "far.npy", *accepted)
    assert found.json["out_of_reach"] == len(rows)
    assert "out of reach" in found.err
    found = done(
        "encode", tmp_path / "job", tmp_path / "mixed.npy", "--json", "--out", tmp_path / "z"
    )
    assert found.json["out_of_reach"] == len(rows) // 10
    assert "out of reach" in found.err
    assert "out of reach" in fails("search", tmp_path / "job", "--query", tmp_path / "far.npy")
    said = fails("learn", tmp_path / "far.npy", "--from", tmp_path / "job", "--out", tmp_path / "w")
    assert "out of reach" in said


@pytest.mark.parametrize("method", ["ssbc", "linear"])
@pytest.mark.parametrize("refine", [0, 4])
@pytest.mark.filterwarnings("default::streambits.errors.ReachWarning")
def test_no_verb_gives_one_code_to_most_rows_in_silence(
    method, refine, done, *, command, rows, tmp_path
):
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "far.npy", rows * 0.01 + 1000)
    plain = ("--bits", 4, "--set", "n_landmarks=40", "--set", "epochs=never", "--refine", refine)
    job = tmp_path / "job"
    done("online", tmp_path / "rows.npy", "--set", f"method={method}", *plain, "--out", job)
    accept = ("--set", "out_of_reach=accept")
    for arguments in (
        ("encode", job, tmp_path / "far.npy", *accept),
        ("online", tmp_path / "far.npy", "--from", job, *accept, "--out", tmp_path / "more"),
        ("search", job, "--query", tmp_path / "far.npy", *accept),
    ):
        found = command(*arguments)
        if arguments[0] == "encode":
            assert found.code == 0, found.err
            lines = [line["code"] + line.get("refinement", "") for line in found.lines]
            most = max(map(lines.count, set(lines)))
            if most <= len(lines) / 2:
                continue
        assert found.code or "out of reach" in found.err, arguments


# From Python


def test_rows_that_wait_for_landmarks_are_searched(done, rows, tmp_path):
    """As a job leaves them that was stopped early: tests/jobs has one that runs."""
    work = sb.Settings(bits=16, n_landmarks=400)
    np.save(tmp_path / "rows.npy", rows[:1000])
    np.save(tmp_path / "q.npy", rows[:3])
    with JobFolder(tmp_path / "job", {"verb": "online"}) as folder:
        sink = open_sink(folder.codes, 16)
        job = Job(
            open_source(tmp_path / "rows.npy"),
            Online(work),
            sink,
            Rejects(None, skip=False),
            folder,
        )
        job._resume()
        for batch in job.source.read():
            job._process(batch)
        job._commit()
        sink.close()
    found = done("search", tmp_path / "job", "--query", tmp_path / "q.npy", "-k", 2)
    far = np.linalg.norm(rows[:3, None] - rows[None, :1000], axis=2)
    assert [line["ids"] for line in found.lines] == np.argsort(far, axis=1)[:, :2].tolist()
    assert "1,000 rows wait for landmarks" in found.err
