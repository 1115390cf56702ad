"""Settings of the client in a file."""

import os

import pytest

from streambits.errors import InputError, StorageError
from streambits.io.rows.kafka_settings import Properties, client_settings, secrets_of


@pytest.fixture
def load(tmp_path):
    """load(content): the settings in a file that others cannot read."""
    path = tmp_path / "kafka.properties"

    def of(content, mode=0o600):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return Properties.load(path)

    return of


def test_lines_are_names_and_values(load):
    found = load("\ufeffa.b = c=d \r\n\n  # no\n! no\nx=\na.b=last\ngroup.id=mine\n")
    assert found.settings == {"a.b": "last", "x": "", "group.id": "mine"}
    assert [place.rpartition(" ")[2] for place in found.places.values()] == ["6", "5", "7"]


def test_what_the_source_sets_itself_stays_as_it_is(load):
    assert load("bootstrap.servers=x\nenable.auto.commit=true\nacks=all").settings == {
        "acks": "all"
    }


@pytest.mark.parametrize("mark", ["'", '"'])
def test_who_logs_in_may_be_written_as_for_java(load, mark):
    line = f"sasl.jaas.config=a.b.PlainLoginModule required username={mark}me{mark}"
    found = load(f"{line} password={mark}hunter=2;{mark};")
    assert found.settings == {"sasl.username": "me", "sasl.password": "hunter=2;"}
    assert secrets_of(found.settings) == ("hunter=2;",)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("a=b\nhunter2", "line 2: it must be name=value"),
        ("=hunter2", "line 1: it must be name=value"),
        ("sasl.password hunter2 = x", "line 1: it must be name=value"),
        ("a=b\n\nsasl.password=hunter2\\\n", "line 3: .*STREAMBITS_KAFKA_SASL_PASSWORD"),
        ("sasl.jaas.config=module required token='hunter2';", "line 1: sasl.jaas.config must"),
        (b"a=b\nsasl.password=hunter2\xff", "line 2: it is not UTF-8"),
    ],
)
def test_a_line_that_cannot_be_read_is_told_by_its_number_only(load, content, place):
    with pytest.raises(InputError, match=f"kafka.properties, {place}") as caught:
        load(content)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(
        StorageError, match=r"none, with settings of Kafka, cannot be read: No such"
    ):
        Properties.load(tmp_path / "none")


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o600])
def test_a_password_that_others_can_read_is_warned_of(load, caplog, mode):
    load("sasl.password=hunter2", mode)
    assert ("can be read by other users" in caplog.text) == (mode != 0o600)
    assert "hunter2" not in caplog.text
    caplog.clear()
    load("sasl.username=me", 0o644)
    assert not caplog.text


def test_the_variable_that_names_the_file_is_no_setting():
    assert client_settings({"STREAMBITS_KAFKA_PROPERTIES": "x", "STREAMBITS_KAFKA_A_B": "c"}) == {
        "a.b": "c"
    }
