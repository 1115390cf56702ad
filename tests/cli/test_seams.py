"""Where jobs, models and files meet: what users type first, each case as a stranger met it."""

import json

import numpy as np
import pytest
from pyarrow import parquet

import streambits as sb
from streambits.io.codes import open_codes

SETTINGS = ("--bits", 16, "--set", "n_landmarks=40", "--set", "epochs=never", "--set", "quiet=true")


@pytest.fixture
def done(command):
    """done(*arguments): a command that must succeed."""

    def done(*arguments, **more):
        found = command(*arguments, **more)
        assert found.code == 0, found.err
        return found

    return done


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


@pytest.mark.parametrize("more", [["method=ssbc"], ["method=linear", "refine=4"]], ids=str)
@pytest.mark.filterwarnings("default::streambits.errors.ReachWarning")
def test_no_verb_gives_one_code_to_most_rows_in_silence(more, done, command, rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "far.npy", rows * 0.01 + 1000)
    job, far = tmp_path / "job", tmp_path / "far.npy"
    plain = ["bits=4", "n_landmarks=40", "epochs=never", *more]
    settings = (word for one in plain for word in ("--set", one))
    done("online", tmp_path / "rows.npy", *settings, "--out", job)
    accept = ("--set", "out_of_reach=accept")
    found = done("encode", job, far, *accept)
    lines = [line["code"] + line.get("refinement", "") for line in found.lines]
    alike = max(map(lines.count, set(lines))) > len(lines) / 2
    assert not alike or "out of reach" in found.err
    for arguments in (
        ("online", far, "--from", job, *accept, "--out", tmp_path / "more"),
        ("search", job, "--query", far, *accept),
    ):
        found = command(*arguments)
        assert found.code or "out of reach" in found.err, arguments
