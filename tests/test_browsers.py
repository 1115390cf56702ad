import pytest

from browsers import browser_file


def test_a_missing_browser_is_a_failure_in_ci_alone(monkeypatch):
    monkeypatch.delenv("STREAMBITS_BROWSER", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install chromium"):
        browser_file()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="install chromium"):
        browser_file()
