"""A job that runs is searched from another process, at any moment, by what it has committed.

150 searches, and with STREAMBITS_SLOW=1 1,000.
"""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError
from streambits.jobs.folder import JobFolder

SEARCHES = 1000 if os.environ.get("STREAMBITS_SLOW") else 150
BITS = 16
SETTINGS = ["--bits", BITS, "--set", "n_landmarks=40", "--set", "epochs=never"]
SETTINGS += ["--set", "refresh=100000"]

SEARCHER = """
import json, sys, time
import numpy as np
import streambits as sb
job, queries, count = sys.argv[1], np.load(sys.argv[2]), int(sys.argv[3])
for number in range(count):
    found = sb.open(job)
    query = number % len(queries)
    hits = found.search(queries[query : query + 1], 5, real=False)
    line = [query, found.counts, hits.ids[0].tolist(), hits.distances[0].tolist()]
    print(json.dumps(line), flush=True)
    time.sleep(4 / count)
"""


def messages(rows, rng):
    """Documents that come, change and go."""
    found = []
    for number, row in enumerate(rows):
        found.append({"id": f"doc-{number % 1500}", "embedding": row.tolist(), "title": "t"})
        if number % 4 == 3:
            found.append({"id": f"doc-{rng.integers(number + 1)}", "embedding": None})
    return found


def committed_states(items):
    """states[n]: what is live after n messages, as id -> row, and how many were learned."""
    states, live, rows = [({}, 0)], {}, 0
    for item in items:
        live = dict(live)
        if item["embedding"] is None:
            live.pop(item["id"], None)
        else:
            live[item["id"]] = np.array(item["embedding"])
            rows += 1
        states.append((live, rows))
    return states


@pytest.mark.slow
def test_every_answer_is_that_of_some_committed_state(jobs, mixture, nats_server, tmp_path):
    rows, folder = mixture(6000, dtype=np.float64), tmp_path / "job"
    items = messages(rows, np.random.default_rng(0))
    queries = rows[:50] + 0.01
    np.save(tmp_path / "q.npy", queries)
    name = nats_server.new([json.dumps(one).encode() for one in items[:600]])
    command = [
        "online",
        f"{nats_server.url}/{name}",
        *SETTINGS,
        "--ids",
        "id",
        "--set",
        "follow=true",
    ]
    command += ["--columns", "embedding", "--set", "commit_seconds=0.05"]
    command += ["--set", "commit_rows=300", "--out", folder]
    answers = []

    def search():
        while JobFolder(folder).checkpoint() is None or not JobFolder(folder).checkpoint().offset:
            time.sleep(0.05)
        work = [sys.executable, "-c", SEARCHER, folder, tmp_path / "q.npy", SEARCHES]
        process = subprocess.Popen([*map(str, work)], stdout=subprocess.PIPE, text=True)
        answers.append(json.loads(process.stdout.readline()))
        step = -(-len(items) // 60)
        for start in range(600, len(items), step):
            part = items[start : start + step]
            nats_server.publish(name, [json.dumps(one).encode() for one in part])
            time.sleep(0.04)
        answers.extend(map(json.loads, process.communicate()[0].splitlines()))
        assert process.returncode == 0

    assert jobs.during(command, search, stop=True) == 0, jobs.said
    assert len(answers) == SEARCHES
    coder = sb.load(folder / "coders.safetensors").newest
    states = committed_states(items)
    asked = coder.encode(queries).unpack()
    seen = set()
    for query, counts, ids, distances in answers:
        read = counts["rows"] + counts["removed"]
        live, learned = states[read]
        assert learned == counts["rows"]
        seen.add(read)
        codes = coder.encode(np.array(list(live.values()))).unpack()
        far = dict(zip(live, (codes != asked[query]).sum(axis=1)))
        nearest = sorted(far.values())[:5]
        assert distances == pytest.approx(nearest)
        assert [far[key] for key in ids] == pytest.approx(nearest)
        assert len(set(ids)) == len(ids)
    assert len(seen) > 10  # it went on meanwhile


def test_a_job_stopped_while_its_first_rows_wait_reads_them_again(
    jobs, mixture, nats_server, tmp_path
):
    rows = mixture(300)
    name = nats_server.new([json.dumps(row).encode() for row in rows[:100].tolist()])
    folder = tmp_path / "job"
    command = ["online", f"{nats_server.url}/{name}", *SETTINGS, "--out", folder]
    follow = [
        *command,
        "--set",
        "follow=true",
        "--set",
        "commit_seconds=0.1",
        "--set",
        "metrics_port=0",
    ]
    assert jobs.during(follow, lambda: time.sleep(1), stop=True) == 0, jobs.said
    assert "Traceback" not in jobs.said
    assert "100 of them waited for landmarks" in jobs.said
    with pytest.raises(InputError, match="no model yet"):
        sb.open(folder)
    nats_server.publish(name, [json.dumps(row).encode() for row in rows[100:].tolist()])
    jobs.whole(command)
    assert len(sb.open(folder)) == 300
