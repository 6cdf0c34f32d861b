# The two commands of the README, and what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Idle OpenMP threads would otherwise spin and starve the engine beside them.
export OMP_WAIT_POLICY ?= passive

.PHONY: demo test test-service test-commands test-crash test-contract test-inside lint bench clean

demo: $(BIN)/.installed ## ingest the example knowledge base and look things up
	@$(BIN)/python examples/demo.py

test: $(BIN)/.installed-dev lint ## everything CI runs, in five parts side by side
	@$(MAKE) --no-print-directory --jobs=5 --keep-going \
		test-service test-commands test-crash test-contract test-inside

# Services, commands, crashes and engines: these mostly wait for processes of their own.
SERVICE := tests/wire/test_http*.py tests/wire/test_mcp*.py tests/wire/test_client.py \
	tests/wire/test_schemathesis.py
test-service: $(BIN)/.installed-dev
	$(BIN)/pytest $(SERVICE) -o cache_dir=.cache/pytest-service

test-commands: $(BIN)/.installed-dev
	$(BIN)/pytest tests/wire $(addprefix --ignore-glob=,$(SERVICE)) -o cache_dir=.cache/pytest-commands

test-crash: $(BIN)/.installed-dev
	$(BIN)/pytest tests/crash -o cache_dir=.cache/pytest-crash

test-contract: $(BIN)/.installed-dev
	$(BIN)/pytest tests/contract -o cache_dir=.cache/pytest-contract

test-inside: $(BIN)/.installed-dev
	$(BIN)/pytest --ignore=tests/wire --ignore=tests/crash --ignore=tests/contract -o cache_dir=.cache/pytest-inside

lint: $(BIN)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python examples/build_qrels.py --check

bench: $(BIN)/.installed-dev ## print the benchmark tables; SETS=folder adds quality over labelled sets
	$(BIN)/python benchmarks/lookup.py
	$(BIN)/python benchmarks/ingest.py
	$(BIN)/python benchmarks/rebuild.py
	$(if $(SETS),$(BIN)/python benchmarks/quality.py $(SETS))

clean: ## remove the environment, caches and the demo's index
	rm -rf $(VENV) .cache build dist examples/.demo-data

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Knowport needs Python 3.11 or later; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(BIN)/.installed: pyproject.toml | $(BIN)/python
	@echo "Installing Knowport into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable .
	@touch $@

$(BIN)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "Installing Knowport and its test tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(BIN)/.installed
