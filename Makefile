# Two commands do everything: `make demo` and `make test`. `make test-all` runs the slow tests too, in
# their long versions; `make test-lowest` tries every verb with the lowest versions of the core
# dependencies, and nothing else, installed; `make test-wheel` does the same with the wheel that
# `make wheel` builds. `make serve` keeps the service of the demo running; `make docs` builds the site.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
CLEAN := .venv-wheel
# The tests start hundreds of processes, each of which would compile the package again.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo serve test test-all checks test-lowest docs wheel test-wheel format bench experiments paper clean

demo: $(VENV)/serve.installed
	$(BIN)/streambits demo
	@echo; echo "the service, on a small stream, for a few seconds (make serve keeps it running):"
	@$(BIN)/python docs/examples/stream.py "$$(mktemp -d)/index" 5

serve: $(VENV)/serve.installed
	$(BIN)/python docs/examples/stream.py build/example-index

test: checks
	$(BIN)/pytest -n 2 -m "not slow"

test-all: checks
	STREAMBITS_SLOW=1 $(BIN)/pytest -n 2

checks: $(VENV)/dev.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-lowest:
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt . pytest
	$(LOWEST)/bin/python -m pytest --noconftest -W default tests/lowest

wheel: $(VENV)/dev.installed
	rm -rf dist
	$(BIN)/python -m build --no-isolation .

test-wheel: wheel
	$(PYTHON) -m venv --clear $(CLEAN)
	$(CLEAN)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl pytest
	$(CLEAN)/bin/python -m pytest --noconftest -W default tests/lowest

docs: $(VENV)/docs.installed
	$(BIN)/python -m tools.site

format: $(VENV)/dev.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/dev.installed
	$(BIN)/python -m benchmarks --page docs/performance.md

experiments: $(VENV)/dev.installed
	$(BIN)/python -m experiments.core --seeds 3

paper: $(VENV)/dev.installed
	$(BIN)/python -m paper full

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/%.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) $(CLEAN) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
