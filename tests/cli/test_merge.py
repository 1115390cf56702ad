"""`streambits merge`: learners of shards."""

import pytest

import streambits as sb


@pytest.fixture
def shards(tmp_path, train, rows):
    for number in range(3):
        learner = sb.ssbc(train, 16).learn(rows[number::3])
        sb.save(learner, tmp_path / f"{number}.safetensors")
    return [tmp_path / f"{number}.safetensors" for number in range(3)]


def test_shards_become_one(command, shards, tmp_path, rows):
    out = tmp_path / "whole.safetensors"
    done = command("merge", *shards, "--out", out, "--json")
    whole = sb.load(shards[0]).merge(sb.load(shards[1])).merge(sb.load(shards[2]))
    assert sb.load(out).coder().encode(rows) == whole.coder().encode(rows)
    assert done.json["rows"] == whole.seen == 5000
    assert done.json["certificate"] == whole.certificate
    assert "5,000 rows of 3 models" in command("merge", *shards, "--out", out).out


def test_the_folder_of_a_job_is_a_model(command, job, tmp_path, rows):
    other = tmp_path / "other.safetensors"
    sb.save(sb.load(job / "model.safetensors").fresh().learn(rows[:100]), other)
    assert command("merge", job, other, "--out", tmp_path / "whole.safetensors").code == 0


def test_a_model_and_its_copy_are_refused(fails, job, shards, tmp_path):
    again, out = tmp_path / "again.safetensors", tmp_path / "whole.safetensors"
    again.write_bytes((job / "model.safetensors").read_bytes())
    assert f"{again} is a copy of {job}" in fails("merge", job, again, "--out", out)
    again.write_bytes(shards[1].read_bytes())
    assert f"{again} is a copy of {shards[1]}" in fails("merge", *shards, again, "--out", out)
    assert not out.exists()


def test_shards_that_do_not_fit(fails, shards, train, tmp_path):
    short, out = tmp_path / "short.safetensors", tmp_path / "whole.safetensors"
    sb.save(sb.ssbc(train, 12), short)
    told = fails("merge", shards[0], short, "--out", out)
    assert "short.safetensors does not fit" in told
    assert "bits is 16 here and 12 there" in told
    assert not out.exists()


def test_a_users_mistakes(fails, misused, shards, job, tmp_path):
    assert "learner is needed" in fails("merge", shards[0], job / "coders.safetensors")
    assert "does not exist" in fails("merge", shards[0], "nowhere.safetensors")
    assert "has no model.safetensors" in fails("merge", shards[0], tmp_path)
    assert "at least two" in misused("merge", shards[0])
    assert "named twice" in misused("merge", shards[0], shards[0])
    assert "named twice" in misused("merge", job, job / "model.safetensors")
