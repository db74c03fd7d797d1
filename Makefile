# Every target bootstraps what it needs: Python >= 3.11 with venv and pip, nothing else of ours.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint unit test-cluster test-operators test-spark long bench programs operators lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "%-14s %s\n", $$1, $$2}'

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

setup: $(READY) ## .venv with the locked dependencies and the commands `ganggate` and `kubectl-gang`

programs: $(READY) ## build the control plane into the user's cache (6-9 minutes the first time on two cores)
	$(BIN)/ganggate local build

demo: $(READY) ## the main job on a real control plane: gangs held, explained, admitted whole, bound
	$(BIN)/python -m deploy.local.demo

lint: $(READY) ## format, style, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(READY) ## pure tests: unit and property
	$(PYTEST) -n $(WORKERS) tests/unit tests/property

test-cluster: programs ## behaviour, on a real kube-apiserver, controller-manager and scheduler
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/cluster

operators: programs ## build real operators (JobSet, LWS, KubeRay, MPI, Trainer, Training) into the user's cache
	$(BIN)/ganggate local operators build

test-operators: operators ## real operators on a real control plane; one run at a time, for a port of MPI is fixed
	$(PYTEST) tests/operators

test-spark: programs ## Spark's operator and Spark on a real control plane: a JVM, 434 MB to download the first time
	$(BIN)/ganggate local operators build spark
	$(PYTEST) tests/spark

test: lint unit test-cluster ## every check, at sample size

long: operators ## the full counts, in parts of at most 30 minutes that go on where they were interrupted
	$(BIN)/python -m tests.long

bench: programs ## ratios in one run: webhook on/off, lift against the bare patch loop
	$(BIN)/python -m tests.bench

lock: $(READY) ## write requirements.lock anew from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --generate-hashes --universal --no-emit-index-url --no-annotate \
	  --group dev pyproject.toml -o requirements.lock

clean: ## everything made here; the built control plane stays in the user's cache
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
