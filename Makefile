# Two commands do everything on a machine with Python 3.11 or newer and a package index:
#   make demo    a private regression on embedded data: plan, release, estimate, report
#   make test    lint, types, import layers, doctests, the README's code, tests
# Both make their own environment (.venv) with the versions of requirements.lock.

# The newest Python of the PATH that runs: a name there may be a shim of pyenv without a version.
PYTHON ?= $(or $(shell for p in python3.14 python3.13 python3.12 python3.11; do \
    $$p -c 'import ensurepip' 2> /dev/null && echo $$p && break; done),python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet install -c requirements.lock
RUN_ENV  := $(VENV)/.ready-run
TEST_ENV := $(VENV)/.ready-test
BENCH_ENV := $(VENV)/.ready-bench
DOCS_ENV := $(VENV)/.ready-docs
DIST_ENV := $(VENV)/.ready-dist
# One BLAS thread per test process: two are slower at these sizes and fight for the cores.
# Compiled modules are kept: tests start more than a hundred processes.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

.PHONY: help demo picture pictures test processes matrix processors browser test-slow lint types layers unit bench docs dist format lock clean

help: ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "privest needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@echo "making $(VENV) with $(PYTHON) ..."
	@$(PYTHON) -m venv $(VENV)

$(RUN_ENV): $(VENV)/pyvenv.cfg pyproject.toml requirements.lock
	@echo "installing privest and what the demo needs ..."
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation -e ".[app,cli,data,learn,plot]"
	@touch $@

$(TEST_ENV): $(RUN_ENV)
	@echo "installing the test tools ..."
	@$(PIP) --no-build-isolation -e ".[dev]"
	@touch $@

demo: $(RUN_ENV) ## plan, release, estimate and report on embedded data
	@$(BIN)/privest demo

picture: $(RUN_ENV) ## docs/images/report.png again, from the demo (needs chromium)
	@$(BIN)/python docs/report_picture.py

pictures: $(TEST_ENV) ## docs/images/app-*.png, collect.png again: the screens of the app, the live page (needs chromium)
	@$(BIN)/python docs/app_pictures.py
	@$(BIN)/python docs/live_picture.py

lint: $(TEST_ENV) ## ruff: style and format; how the pages read
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/python docs/prose.py

types: $(TEST_ENV) ## mypy --strict on src
	@$(BIN)/mypy

layers: $(TEST_ENV) ## import layers
	@$(BIN)/lint-imports --no-logo

unit: $(TEST_ENV) ## pytest: unit, theorems, oracles, statistics, doctests, README
	@$(ONE_THREAD) $(BIN)/pytest -q -n auto -m "not slow and not browser and not processes"

test: $(TEST_ENV) ## everything but browser, processes and the longer statistics
	@$(MAKE) --no-print-directory -j4 lint types layers unit

processes: $(TEST_ENV) ## clusters, MPI, servers (installs Debian's where it can), what is killed again and again, the longest theorems
	@.ci/servers
	@$(ONE_THREAD) $(BIN)/pytest -q -n auto -m "processes and not slow"

matrix: ## the wheel and the theorems on every Python found, with the lowest and the newest NumPy and SciPy
	@.ci/matrix

processors: $(TEST_ENV) ## theorems, oracles, golden files as on an older and a newer processor; CORES=all, or "Nehalem Zen"
	@BIN=$(BIN) .ci/processors $(CORES)

browser: $(TEST_ENV) ## the app and the report in a real browser (installs Debian's chromium where it can)
	@.ci/chromium
	@$(ONE_THREAD) $(BIN)/pytest -q -n auto -m browser

test-slow: $(TEST_ENV) ## the longer statistics; theorems on more examples
	@$(ONE_THREAD) $(BIN)/pytest -q -n auto -m slow
	@$(ONE_THREAD) EXAMPLES=300 $(BIN)/pytest -q -n auto -m "not slow" tests/theorems

$(BENCH_ENV): $(TEST_ENV)
	@echo "installing the peers to compare with ..."
	@$(PIP) setuptools wheel
	@$(PIP) --no-build-isolation -e ".[bench]"
	@touch $@

bench: $(BENCH_ENV) ## ratios against literal formulas and limits; writes out/bench.json
	@$(BIN)/python -m benchmarks

$(DOCS_ENV): $(TEST_ENV)
	@echo "installing Sphinx ..."
	@$(PIP) --no-build-isolation -e ".[docs]"
	@touch $@

docs: $(DOCS_ENV) ## the site with its gallery, into out/site; warnings are errors
	@$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going -q -b html docs out/site

$(DIST_ENV): $(VENV)/pyvenv.cfg requirements-build.in requirements.lock
	@echo "installing the tools that build and check ..."
	@$(PIP) -r requirements-build.in
	@touch $@

dist: $(DIST_ENV) ## wheel, sdist and the list of what they need, checked, into dist
	@BIN=$(BIN) .ci/dist

format: $(TEST_ENV) ## rewrite the code in the house style
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

lock: ## renew requirements.lock (needs uv)
	uv pip compile --universal --python-version 3.11 --extra dev --extra bench --extra docs --no-annotate --no-header \
	    pyproject.toml requirements-build.in -o requirements.lock

clean: ## remove the environment and everything made
	rm -rf $(VENV) out dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
