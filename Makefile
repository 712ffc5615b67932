# Everything a newcomer needs; `make help` lists it. All of it runs in a virtual environment of its own.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# What Rowen itself needs, for the demo; and that with all that tests and checks need.
DEMO   := $(VENV)/.demo-ready
STAMP  := $(VENV)/.ready
# Installs several times as fast as pip, where it is there; `make setup UV=` does without.
UV     ?= $(shell command -v uv)
ifeq ($(UV),)
MAKE_VENV = $(PYTHON) -m venv $(VENV)
# What is never imported need not be compiled, and the rest is when it first runs.
INSTALL   = $(BIN)/python -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt --editable
else
MAKE_VENV = $(UV) venv --allow-existing --python $(PYTHON) $(VENV)
INSTALL   = $(UV) pip install --python $(BIN)/python --constraint constraints.txt --editable
endif
FUZZ_SECONDS ?= 1800
SOAK_MINUTES ?= 60
TEST_PROCESSES ?= auto
# Tests start a thousand processes: what they import is compiled once, wherever the sources lie and whatever is usual here.
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/$(VENV)/compiled
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-external test-live corpus soak fuzz bench serve clean

help: ## List the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(STAMP) ## Make the virtual environment with the exact versions of constraints.txt

$(STAMP): pyproject.toml constraints.txt
	@echo "Installing Rowen and its tools for tests and checks into $(VENV): 800 MB, about a minute."
	$(MAKE_VENV)
	$(INSTALL) '.[dev]'
	@touch $(DEMO) $@

$(DEMO): pyproject.toml constraints.txt
	@echo "Installing Rowen and what it needs into $(VENV): 340 MB, about half a minute."
	$(MAKE_VENV)
	$(INSTALL) .
	@touch $@

demo: $(DEMO) ## Harvest a small world, change it, sync again, search: offline, in under a minute
	@$(BIN)/rowen demo
	@command -v rowen >/dev/null || printf '\n%s\n' 'To have `rowen` on your path: `pipx install .` or `uv tool install .`, here in the clone; or, for this shell, `. $(BIN)/activate`.'

check: setup ## What the build runs before the tests: format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup ## Run all tests, side by side: make test TEST_PROCESSES=3
	$(BIN)/pytest --numprocesses $(TEST_PROCESSES) --dist worksteal

test-external: setup ## Run all tests against the server of ROWEN_TEST_DATABASE_URL
	@test -n "$$ROWEN_TEST_DATABASE_URL" || { echo "Set ROWEN_TEST_DATABASE_URL first."; exit 2; }
	$(BIN)/pytest

test-live: setup ## Ask one real portal of each kind for its first items, over the network
	ROWEN_TEST_LIVE=1 $(BIN)/pytest -m live tests/live

corpus: setup ## Digest recorded responses of real portals: make corpus CORPUS=folder
	CORPUS=$(CORPUS) $(BIN)/pytest tests/corpus

soak: setup ## Compare refreshes with rebuilds for long, all kinds on all cores: make soak SOAK_MINUTES=60
	$(BIN)/python -m tests.refresh soak --minutes $(SOAK_MINUTES)

fuzz: setup ## Feed every reader broken input for long: make fuzz FUZZ_SECONDS=3600
	$(BIN)/python -m tests.hostile.fuzz --seconds $(FUZZ_SECONDS)
	ROWEN_FUZZ_SECONDS=$(FUZZ_SECONDS) ROWEN_TEST_LIMIT_S=$$(( $(FUZZ_SECONDS) + 600 )) \
	  $(BIN)/pytest -q tests/hostile/test_hostile_records.py tests/hostile/test_cursors.py tests/rest/test_conformance.py

bench: setup ## Measure: costs as ratios and CPU per item
	$(BIN)/python -m bench.startup
	$(BIN)/python -m bench.files
	$(BIN)/python -m bench.chunks
	$(BIN)/python -m bench.fetch
	$(BIN)/python -m bench.sites
	$(BIN)/python -m bench.embedding
	$(BIN)/python -m bench.exports
	$(BIN)/python -m bench.peer --records 5000
	$(BIN)/python -m bench.kinds
	$(BIN)/python -m bench.queue
	$(BIN)/python -m bench.freshness --pages 300
	$(BIN)/python -m bench.fleet --portals 40 --pages 20
	$(BIN)/python -m bench.extraction
	$(BIN)/python -m bench.statements
	$(BIN)/python -m bench.assistant
	$(BIN)/python -m bench.interfaces
	$(BIN)/python -m bench.streams

serve: setup ## Start the server over HTTP on http://127.0.0.1:8400, and keep everything fresh
	@$(BIN)/rowen serve

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
