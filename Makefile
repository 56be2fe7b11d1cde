# `make demo` and `make test` need only Python >= 3.10 (with venv) and make; each sets up .venv once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_FOR_DOCS := $(VENV)/.ready-for-docs
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Two workers take two cores already, and threads of libraries that wait for each other take their time.
test slow docs: export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint slow docs screenshots benchmarks clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1|/p' Makefile | awk -F'|' '{ printf "%-19s%s\n", $$1, $$2 }'

demo: $(READY) ## train on real data, log to MLflow, print what was found
	@$(BIN)/ens-plugin demo

test: lint ## format, lint, types, import layers, tests
	@echo "The tests take about ten minutes on two cores."
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not spark"

lint: $(READY) ## the same without the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	MYPY_NUM_WORKERS=2 $(BIN)/mypy
	$(BIN)/lint-imports

slow: $(READY) ## the repeated and large tests, and those with Spark, trackers and in a browser
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "slow or spark or browser or trackers or hypothesis" \
	  --hypothesis-profile all_examples

docs: $(READY_FOR_DOCS) ## the site, into docs/_build/html; warnings are errors
	cd docs && MPLBACKEND=agg ../$(BIN)/python -m sphinx -W --keep-going -q -j 2 -b html . _build/html
	@echo "docs/_build/html/index.html; with excerpts in the search: python3 -m http.server -d docs/_build/html"

screenshots: $(READY) ## the pictures of MLflow and notebooks in docs/images; needs Chromium
	ENS_PLUGIN_SCREENSHOTS=docs/images $(BIN)/python -m pytest -m browser

benchmarks: $(READY) ## accuracy, intervals, speed and memory; rewrites benchmarks/results and RESULTS.md (long)
	$(BIN)/python -m benchmarks

clean: ## remove the environment, builds and caches
	rm -rf docs/_build docs/gallery docs/tutorials docs/reference/generated
	rm -rf $(VENV) *.egg-info build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@command -v $(PYTHON) > /dev/null || { \
	  echo "No $(PYTHON) found. Install Python 3.10 or newer, or name yours: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "$(PYTHON) is $$($(PYTHON) --version 2>&1), which is too old: Python 3.10 or newer is needed." >&2; \
	  echo "Name another one: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. On Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Setting up $(VENV) (once; a few minutes)"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(READY_FOR_DOCS): $(READY)
	@$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@
