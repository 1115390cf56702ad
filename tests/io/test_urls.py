"""URLs are shown without their secrets, wherever those stand and whatever they are made of."""

from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streambits.errors import InputError
from streambits.io.urls import Url, is_url, redact, redact_url, secrets_in

EXAMPLE = "postgresql://host/database"
SCHEMES = st.sampled_from(["postgresql", "postgres", "nats", "tls", "kafka", "postgresqll", "nat"])
HOSTS = st.sampled_from(["host", "host:5432", "h1,h2:9092", "[::1]:5432", "[::1", "", "a b", "h:x"])
ENDS = st.sampled_from(["", "/", "/db", "/db=x", "/db?table=t", "?table=t&sslmode=require", "/a@b"])
NAMES = st.sampled_from(["password", "sslpassword", "passfile", "sasl.password", "token", "user"])
PASSWORDS = st.text(st.sampled_from("Qz#/?@[]:%&=;, \\+'\"\n€é"), min_size=2, max_size=12).map(
    lambda text: f"Q{text}z"  # so that it is not part of anything else
)
FORMS = {
    "login": "{scheme}://me:{secret}@{hosts}{end}",
    "token": "{scheme}://{secret}@{hosts}{end}",
    "each": "{scheme}://me:{secret}@{hosts},me:{secret}@{hosts}{end}",
    "urls": "{scheme}://me:{secret}@{hosts},{scheme}://me:{secret}@{hosts}{end}",
    "slash": "{scheme}:/me:{secret}@{hosts}{end}",
    "none": "{scheme}:me:{secret}@{hosts}{end}",
    "kind": "jsonl:{scheme}://me:{secret}@{hosts}{end}",
    "query": "{scheme}://{hosts}/db?{name}={secret}",
    "last": "{scheme}://me@{hosts}/db?table=t&{name}={secret}",
    "first": "{scheme}://{hosts}/db?{name}={secret}&table=t",
    "semicolon": "{scheme}://{hosts}/db?table=t;{name}={secret}",
    "words": "{scheme}://{hosts}/db {name}={secret}",
    "port": "{scheme}://me:{secret}/db",
}


@settings(max_examples=200)
@given(st.sampled_from(sorted(FORMS)), SCHEMES, PASSWORDS, HOSTS, ENDS, NAMES, st.booleans())
@example("login", "postgresql", "S3cr3t#pw", "host", "/db", "password", False)
@example("login", "nats", "hunt#hunter2", "host", "/stream", "password", False)
def test_a_password_is_never_shown(  # noqa: PLR0917
    form, scheme, secret, hosts, end, name, escaped
):
    if form in ("slash", "none") and scheme in ("postgresqll", "nat"):
        scheme = "nats"  # nothing tells that a:b is meant as a URL
    if form == "port" and secret.startswith(tuple("/?")):
        return
    written = quote(secret, "") if escaped else secret
    url = FORMS[form].format(scheme=scheme, secret=written, hosts=hosts, end=end, name=name)
    assert is_url(url)
    assert secret not in redact_url(url)
    assert written not in redact_url(url)
    assert "Q" not in redact_url(url).partition("&table")[0]
    with suppress(InputError):
        Url.parse(url, EXAMPLE)
        return
    with pytest.raises(InputError, match=r"^[^Q]*$"):
        Url.parse(url, EXAMPLE)


@given(PASSWORDS, st.booleans())
def test_a_library_that_repeats_it_is_cleaned(secret, escaped):
    """What is not a URL never comes to a library."""
    escaped = escaped or bool(set("/?@&,") & set(secret))
    written = quote(secret, "") if escaped else secret
    item = f"password={quote(secret, '')}"
    for url in (f"nats://me:{written}@host/x", f"postgresql://host/db?{item}"):
        for said in (f"bad {url}!", f"bad {secret}", f"bad {written}"):
            assert secret not in redact(said, secrets_in(url))
            assert " ".join(secret.split()) not in redact(said, secrets_in(url))


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://me:pw@host:5432/db?table=a.b", "postgresql://host:5432/db?table=a.b"),
        ("postgresql://me@h1:1,h2:2/db", "postgresql://h1:1,h2:2/db"),
        ("postgresql://me@[::1]:5/db", "postgresql://[::1]:5/db"),
        ("postgresql:///db?host=/tmp&password=x", "postgresql:///db?host=/tmp"),
        ("postgresql://%2Ftmp/db", "postgresql://%2Ftmp/db"),
        ("postgresql://h/db?service=mine&user=me", "postgresql://h/db?service=mine"),
        ("kafka://a:9092,b:9092/topic", "kafka://a:9092,b:9092/topic"),
        ("nats://me:b#c@host/stream?subject=x.y", "nats://host/stream?subject=x.y"),
        ("jsonl:codes.jsonl", "jsonl:codes.jsonl"),
        ("c:/odd", "c:/odd"),
        ("some/folder", "some/folder"),
    ],
)
def test_what_is_no_secret_is_shown(url, wanted):
    assert redact_url(url) == wanted


@given(PASSWORDS, PASSWORDS, st.sampled_from(["h", "h1:1,h2", "[::1]:5432", ""]))
def test_what_is_escaped_comes_back(user, password, hosts):
    url = f"nats://{quote(user, '')}:{quote(password, '')}@{hosts}/s?subject={quote(user, '')}"
    found = Url.parse(url, EXAMPLE)
    assert found == ("nats", user, password, hosts, "s", {"subject": user})
    assert Url.parse(str(found), EXAMPLE) == found


def test_odd_characters_are_understood_where_nobody_can_take_them_for_others():
    assert Url.parse("postgresql://me:S3#pw[1,é @host/db", EXAMPLE).password == "S3#pw[1,é "
    assert Url.parse("postgresql://me:100%@host/db?password=a+b", EXAMPLE)[2:] == (
        "100%",
        "host",
        "db",
        {"password": "a+b"},
    )
    for url in (
        "postgresql://me:a/b@host/db",
        "postgresql://me:a@b@host/db",
        "postgresql://host/db?password=a@b",
        "nats://me:a@h1,me:a@h2/stream",
        "nats:x/y",
        "nats://me:p/99@h",
    ):
        with pytest.raises(InputError, match=r"://\.\.\. is not a URL such as .* @ / .* as %40"):
            Url.parse(url, EXAMPLE)
