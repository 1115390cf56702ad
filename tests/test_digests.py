"""Digests: what was written is told from anything else, and can be gone on with."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits._digests import Digest, check_text, seal, seal_text, unseal
from streambits.errors import StorageError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.binary(max_size=20)))
def test_a_digest_does_not_depend_on_how_bytes_are_split(parts):
    digest = Digest()
    for part in parts:
        digest = Digest(*json.loads(json.dumps(digest.then(part))))
    assert digest == Digest.of(b"".join(parts))


@given(st.dictionaries(st.text().filter(lambda name: name != "digest"), PLAIN, max_size=4))
def test_a_record_is_what_was_sealed(tmp_path_factory, record):
    assert unseal(seal(record), tmp_path_factory.getbasetemp()) == record


@given(PLAIN.filter(lambda value: not isinstance(value, dict)) | st.dictionaries(st.text(), PLAIN))
def test_what_was_not_sealed_is_no_record(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "x.json"
    with pytest.raises(StorageError, match=r"x\.json is damaged .*: restore it"):
        unseal(json.dumps(value).encode(), path)


def test_a_text_is_checked_if_it_was_sealed(tmp_path):
    text = seal_text("a = 1\n[b]\nc = 2\n")
    check_text("a = 7", tmp_path)
    check_text(text, tmp_path)
    for changed in (text.replace("1", "2", 1), text + text, text[: len(text) // 2], text[10:]):
        with pytest.raises(
            StorageError, match="or was edited: write it again, or delete the lines"
        ):
            check_text(changed, tmp_path)
