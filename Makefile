# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test format bench experiments paper clean

demo: $(VENV)/plain.installed
	$(BIN)/streambits demo

test: $(VENV)/dev.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2

format: $(VENV)/dev.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/dev.installed
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/sketches.py

experiments: $(VENV)/dev.installed
	$(BIN)/python -m experiments.core --seeds 3

paper: $(VENV)/dev.installed
	$(BIN)/python -m paper full

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/plain.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	touch $@

$(VENV)/%.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
