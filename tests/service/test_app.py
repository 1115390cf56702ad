"""Each endpoint, each kind of body, and what is refused."""

import json
import socket
import time

import numpy as np
import pyarrow as pa
import pytest

import streambits as sb
from service.conftest import SMALL, TOKEN
from streambits.service import bodies
from streambits.service.app import PAGE

RAW, ARROW = bodies.RAW, bodies.ARROW
PATHS = [
    *(f"/v1/{name}" for name in ("rows", "search", "encode", "status", "drift", "epochs", "map")),
    *(f"/v1/{name}" for name in ("recall", "spectrum", "bits", "model", "events")),
    *("/metrics", "/healthz", "/readyz"),
]


def arrow(**columns):
    table = pa.table(columns)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return out.getvalue().to_pybytes()


def read(content):
    return pa.ipc.open_stream(content).read_all()


def lists(rows):
    return pa.array(rows.tolist(), pa.list_(pa.float32()))


# Rows


def test_rows_come_and_go_as_json_raw_numbers_and_arrow(service, vectors):
    first, far = 10**6, vectors[:2] + 40
    wide = pa.FixedSizeListArray.from_arrays(pa.array((far + 4).ravel().astype(float)), 8)
    ids = np.arange(first, first + 10).reshape(5, 2)
    said = json.dumps({"ids": ids[0].tolist(), "rows": far.tolist()}).encode()
    for query, body, kind in (
        ("", said, "application/json; charset=utf-8"),
        ("?columns=8&ids=int64", ids[1].tobytes() + (far + 1).tobytes(), RAW),
        (f"?first_id={first + 4}", (far + 2).tobytes(), RAW),
        ("", arrow(id=pa.array(ids[3]), v=lists(far + 3)), ARROW),
        ("", arrow(id=pa.array(ids[4]), v=wide), ARROW),
    ):
        status, _, content = service.ask("POST", f"/v1/rows{query}", body, kind, TOKEN)
        assert (status, json.loads(content)) == (200, {"rows": 2})
    with service.client() as client:
        hits = client.search(np.concatenate([far + i for i in range(5)]), 1, by="true")
    assert hits.ids.ravel().tolist() == ids.ravel().tolist()
    assert np.allclose(hits.distances, 0)
    for body, kind, count in (
        (json.dumps({"ids": [*ids[:3].ravel().tolist(), first, 99999]}).encode(), bodies.JSON, 6),
        (ids[3].tobytes(), RAW, 2),
        (arrow(id=pa.array(ids[4])), ARROW, 2),
    ):
        status, _, content = service.ask("DELETE", "/v1/rows", body, kind, TOKEN)
        assert (status, json.loads(content)) == (200, {"removed": count})
    found = service.json("GET", "/v1/rows?id=7&id=9", token=TOKEN)[1]
    assert np.array_equal(np.array(found["rows"], np.float32), vectors[[7, 9]])
    _, _, content = service.ask("GET", "/v1/rows?id=7", token=TOKEN, Accept=ARROW)
    assert read(content).column("id").to_pylist() == [7]
    assert service.json("GET", "/v1/rows?id=123456", token=TOKEN)[0] == 404


def test_searches_come_and_go_as_json_raw_numbers_and_arrow(service, vectors):
    asked = {"rows": vectors[:2].tolist(), "k": 3}
    status, found = service.json("POST", "/v1/search", asked)
    assert status == 200
    assert [row[0] for row in found["ids"]] == [0, 1]
    _, _, raw = service.ask("POST", "/v1/search?k=3", vectors[:2].tobytes(), RAW)
    assert json.loads(raw) == found
    body = arrow(v=lists(vectors[:2]))
    _, headers, content = service.ask("POST", "/v1/search?k=3", body, ARROW, Accept=ARROW)
    assert headers["content-type"] == ARROW
    assert read(content).column("ids").to_pylist() == found["ids"]
    one = service.json("POST", "/v1/search", {"rows": vectors[0].tolist(), "k": 3})[1]
    assert one["ids"] == found["ids"][:1]


def test_the_three_answers_side_by_side(service, vectors):
    found = {
        by: service.json("POST", "/v1/search", {"id": 5, "k": 4, "by": by})[1]
        for by in ("default", "refined", "hamming", "true")
    }
    assert all(answer["ids"][0][0] == 5 for answer in found.values())
    assert found["default"] == found["refined"]
    assert all(type(one) is int for one in found["hamming"]["distances"][0])
    far = np.linalg.norm(vectors - vectors[5], axis=1)
    assert found["true"]["ids"][0] == np.argsort(far)[:4].tolist()
    allowed = {"ids": [5], "k": 2, "by": "true", "allow": [8, 9, 10**9]}
    assert sorted(service.json("POST", "/v1/search", allowed)[1]["ids"][0]) == [8, 9]


def test_encoding_is_that_of_the_model_that_can_be_downloaded(service, vectors, tmp_path):
    status, headers, content = service.ask("GET", "/v1/model", token=TOKEN)
    assert status == 200
    assert "attachment" in headers["content-disposition"]
    (tmp_path / "coder.safetensors").write_bytes(content)
    codes = sb.load(tmp_path / "coder.safetensors").encode(vectors[:5])
    with service.client() as client:
        found = client.encode(vectors[:5])
    assert np.array_equal(found.packed, codes.packed)
    body = arrow(v=lists(vectors[:5]))
    table = read(service.ask("POST", "/v1/encode", body, ARROW, Accept=ARROW)[2])
    assert table.column("code").to_pylist() == [one.tobytes() for one in codes.packed]


# Panels


def test_every_panel_is_a_document(service):
    with service.client() as client:
        status = client.status()
        assert (status["healthy"], status["rows"], status["settings"]["bits"]) == (True, 3000, 32)
        assert min(status["journal_bytes"] / 32, status["memory"] / 1e4) > 1000
        drift = client.get("/v1/drift")
        assert drift["alarm"] == pytest.approx(np.log(1e6))
        assert len(drift["measurements"]["rows"]) == len(drift["measurements"]["evidence"]) > 0
        spectrum = client.get("/v1/spectrum")
        assert spectrum["energies"] == sorted(spectrum["energies"], reverse=True)
        assert 0 <= spectrum["certificate"] < 1
        balance = np.array(client.get("/v1/bits")["balance"])
        assert balance.shape == (32,)
        assert np.abs(2 * balance - 1).mean() < 0.3
        dots = client.get("/v1/map")
        assert len(dots["x"]) == len(dots["y"]) == len(dots["epoch"]) > 100
        assert (dots["epoch"][-1], 0 < dots["explained"] <= 1) == (status["epoch"], True)
        epochs = client.get("/v1/epochs")["epochs"]
        assert sum(one["rows"] for one in epochs) == 3000


def test_recall_is_measured_while_somebody_asks(service):
    status, found = service.json("GET", "/v1/recall")
    for _ in range(200):
        assert status == 200
        if found["mean"] is not None:
            break
        assert "is being measured" in found["detail"]
        time.sleep(0.05)
        status, found = service.json("GET", "/v1/recall")
    assert 0 < found["low"] <= found["mean"] <= found["high"] <= 1
    assert (found["k"], found["rows"]) == (10, 3000)
    assert service.json("GET", "/v1/epochs")[1]["epochs"][0]["recall"]["mean"] > 0


def test_metrics_signs_of_life_and_openapi(service):
    status, headers, content = service.ask("GET", "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    assert b"\nstreambits_service_rows 3000\n" in content
    assert service.json("GET", "/healthz") == (200, {"alive": True})
    assert service.json("GET", "/readyz") == (200, {"ready": True})
    document = service.json("GET", "/openapi.json")[1]
    assert set(document["paths"]) >= set(PATHS)
    assert document["paths"]["/v1/rows"]["post"]["security"] == [{"bearer": []}]
    assert service.ask("GET", "/docs")[0] == service.ask("GET", "/redoc")[0] == 404


def test_renewal_begins_an_epoch_that_listeners_see_and_the_command_encodes_again(service, vectors):
    with socket.create_connection(("127.0.0.1", service.port), 10) as link:
        link.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"event: commit" in _until(link, b"event: commit")
        before = service.json("GET", "/v1/status")[1]["epoch"]
        assert service.json("POST", "/v1/epochs", {}, TOKEN) == (200, {"epoch": before + 1})
        assert b'{"epoch":' in _until(link, b"event: epoch")
    document = service.json("GET", "/v1/epochs")[1]
    old = document["epochs"][0]
    assert old["rows"] == 3000
    assert not old["current"]
    assert "curl -X POST" in document["command"]
    assert service.json("POST", "/v1/epochs", {"reencode": True}, TOKEN) == (
        200,
        {"reencoded": 3000},
    )
    assert len(service.json("GET", "/v1/epochs")[1]["epochs"]) == 1


def _until(link, words):
    found = b""
    while words not in found or not found.endswith(b"\n\n\r\n"):
        found += link.recv(65536)
    return found


# Rules

SECRET = ["POST rows", "DELETE rows", "GET rows?id=1", "POST epochs", "GET map", "GET model"]


@pytest.mark.parametrize("secret", SECRET)
def test_changes_and_raw_rows_need_the_token(service, secret):
    method, path = secret.split()
    for shown in (
        "Bearer",
        "Bearer wrong",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        "Bearer \xff",
        "",
    ):
        headers = {"Authorization": shown} if shown else {}
        found = service.ask(method, f"/v1/{path}", b"{}", "application/json", **headers)
        assert (found[0], found[1]["www-authenticate"]) == (401, "Bearer")
        assert b"token" in found[2]


def test_browsers_are_told_what_they_must_not_do_and_tricks_find_nothing(service):
    for path in ("/", "/v1/status", "/nothing"):
        _, headers, _ = service.ask("GET", path)
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    for path in (
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/app.py",
        ".hidden",
        "index.html%00",
        "a/../../b",
    ):
        assert service.ask("GET", f"/{path}")[0] == service.ask("GET", f"//{path}")[0] == 404
    assert service.ask("GET", "/v1/status", Host="evil.example")[0] == 421
    assert service.ask("GET", "/v1/status", Host="localhost:1")[0] == 200


ENDS = ("NaN", "1e99", "true", '"8"', "8], [1")  # of a row that begins well
TEXTS = [
    *("", "[1]", "{", "[" * 100_000, '{"rows": [[1,2]], "ids": [1], "more": 1}'),
    *(f'{{"rows": [[1,2,3,4,5,6,7,{end}]], "ids": [1]}}' for end in ENDS),
    *(
        f'{{"rows": [[1,2,3,4,5,6,7,8]], "ids": {ids}}}'
        for ids in ("[1, 2]", '["a"]', "[1.5]", f"[{10**20}]", "null")
    ),
]
BAD = [
    *((text.encode(), bodies.JSON, 422) for text in TEXTS),
    (b"\x00" * 31, RAW, 422),
    (np.full(8, np.nan, np.float32).tobytes(), RAW, 422),
    (b"not arrow at all", ARROW, 422),
    (b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x" * 50, ARROW, 422),
    (b"<a/>", "text/xml", 415),
]


@pytest.mark.parametrize(("body", "kind", "expected"), BAD)
def test_what_is_malformed_is_refused_in_a_sentence_and_changes_nothing(
    service, body, kind, expected
):
    before = service.json("GET", "/v1/status")[1]
    query = "?first_id=1" if kind == RAW else ""
    status, _, content = service.ask("POST", f"/v1/rows{query}", body, kind, TOKEN)
    assert status == expected, content
    assert len(json.loads(content)["error"]) > 10
    after = service.json("GET", "/v1/status")[1]
    assert (after["rows"], after["seen"], after["healthy"]) == (3000, before["seen"], True)


NONSENSE = [
    *({}, {"id": 1, "ids": [2]}, {"id": 1, "k": 0}, {"id": 1, "k": 10**9}, {"id": 1, "k": "3"}),
    *({"id": 1, "by": "luck"}, {"id": 1, "exact": "yes"}, {"id": 1, "candidates": -1}),
    *({"id": 123456}, {"rows": []}, {"rows": [[]]}, {"rows": [[1, 2], [3]]}),
]


@pytest.mark.parametrize("asked", NONSENSE)
def test_a_search_that_makes_no_sense_is_refused(service, asked):
    status, found = service.json("POST", "/v1/search", asked)
    assert status == 422, found


ROW = np.ones(8, np.float32)


ONE = {bodies.JSON: b'{"rows": [[1,1,1,1,1,1,1,1]]}', RAW: ROW.tobytes(), None: b""}
ONE[ARROW] = arrow(v=lists(ROW[None]))
UNKNOWN = [
    *(("POST search?columns=8&kk=3", RAW), ("POST search?ids=int64", RAW)),
    *(("POST search?columns=8", ARROW), ("POST search?k=3", bodies.JSON)),
    *(("POST rows?first_id=7&fist=1", RAW), ("POST rows?first_id=7", bodies.JSON)),
    *(("POST rows?first_id=7", ARROW), ("DELETE rows?id=7", RAW), ("POST encode?k=1", RAW)),
    *(("POST epochs?reencode=true", bodies.JSON), ("GET rows?ids=7", None)),
    *(("GET status?pretty=1", None), ("GET ../metrics?name=x", None)),
]


@pytest.mark.parametrize(("asked", "kind"), UNKNOWN)
def test_a_name_in_the_query_string_that_would_be_ignored_is_refused(service, asked, kind):
    method, path = asked.split()
    path = f"/v1/{path}".replace("/v1/../", "/")
    status, _, content = service.ask(method, path, ONE[kind], kind, TOKEN)
    assert status == 422, content
    assert b"which is not known here" in content


@pytest.mark.parametrize(("name", "value"), [("exact", True), ("candidates", 50)])
def test_what_these_codes_cannot_do_is_said(service, name, value):
    status, found = service.json("POST", "/v1/search", {"id": 1, name: value})
    assert status == 409
    assert "begin an index with" in found["error"]
    assert service.json("POST", "/v1/search", {"id": 1, "rerank": 50})[0] == 200


def test_html_in_ids_comes_back_as_json_only(serving, vectors):
    one = serving()
    name = "<script>alert(1)</script>"
    with one.client() as client:
        assert client.add(vectors[:2], [name, "b"]) == 2
        assert client.search(vectors[:1], 1).ids.tolist() == [[name]]
        assert client.remove([name]) == 1
        status, _, body = one.ask("POST", "/v1/search", b'{"rows": [[1]]}', bodies.JSON)
        assert status == 422
        assert b"wait" not in body
    assert one.json("GET", "/v1/spectrum")[0] == 409
    assert one.json("GET", "/v1/model", token=TOKEN)[0] == 409
    assert one.json("POST", "/v1/encode", {"rows": vectors[:1].tolist()})[0] == 409
    assert one.json("POST", "/v1/epochs", {}, TOKEN)[0] == 409
    _, headers, _ = one.ask("POST", "/v1/search", b'{"id": "<b>"}', bodies.JSON)
    assert headers["content-type"] == "application/json"


def test_too_much_is_refused_before_it_is_read(serving, vectors):
    one = serving("--set", "max_body=4096", "--set", "max_rows=10", *SMALL)
    head = f"POST /v1/rows HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    for more in ("Content-Length: 99999999999\r\n\r\n", "Content-Length: 5000\r\n\r\n"):
        assert _sent(one.port, (head + more).encode()).startswith(b"HTTP/1.1 413")
    chunks = (head + "Transfer-Encoding: chunked\r\n\r\n").encode() + b"800\r\n%b\r\n" % (
        b"1" * 2048
    ) * 3
    assert _sent(one.port, chunks).startswith(b"HTTP/1.1 413")
    raw = vectors[:11].tobytes()
    assert one.ask("POST", "/v1/rows?columns=8&first_id=0", raw, RAW, TOKEN)[0] == 413
    said = {"ids": list(range(11)), "rows": vectors[:11].tolist()}
    assert one.json("POST", "/v1/rows", said, TOKEN)[0] == 413
    body = arrow(id=pa.array(range(11)), v=lists(vectors[:11]))
    assert one.ask("POST", "/v1/rows", body, ARROW, TOKEN)[0] == 413
    assert one.json("GET", "/v1/status")[1]["seen"] == 0


def _sent(port, content):
    with socket.create_connection(("127.0.0.1", port), 20) as link:
        link.sendall(content)
        return link.recv(65536)


def _listener(port):
    link = socket.create_connection(("127.0.0.1", port), 10)
    link.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return link, link.recv(4096)


def test_listeners_are_limited(service):
    links = [_listener(service.port) for _ in range(16)]
    assert all(b"200 OK" in found for _, found in links)
    status, headers, _ = service.ask("GET", "/v1/events")
    assert (status, headers["retry-after"]) == (429, "5")
    for link, _ in links:
        link.close()
    found = b""
    while b"200 OK" not in found:  # they are noticed to be gone
        link, found = _listener(service.port)
        link.close()
        time.sleep(0.1)


def test_the_page_is_plain_files_without_outside_addresses():
    files = {path.name: path.read_text() for path in PAGE.iterdir()}
    assert {"index.html", "page.css", "page.js", "icon.svg"} <= set(files)
    for name, text in files.items():
        outside = text.replace("http://www.w3.org/2000/svg", "")  # the name of SVG, not an address
        assert "://" not in outside, name
        assert "innerHTML" not in text, name
    page = files["index.html"]
    assert "style=" not in page
    assert "<style" not in page
    assert page.count("<script") == page.count('<script type="module" src=') == 1
