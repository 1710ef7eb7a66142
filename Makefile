# One command each: see README.md. Everything is installed into .venv from requirements/*.txt.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Tests wait more than they compute: one worker more than cores. Each has a control plane of its own, so a cluster that
# was given is for one alone.
WORKERS ?= $(if $(RELAY_TEST_KUBECONFIG),0,$(shell $(PYTHON) -c 'import os; print(min(8, 1 + (os.cpu_count() or 1)))'))
PASSED := .pytest_cache/passed
COMPILE = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
          --no-annotate --custom-compile-command "make lock" --quiet

.DEFAULT_GOAL := help
.PHONY: help binaries demo test test-long coverage check generate bench controlplane controlplane-down lock

help: ## what each target does
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What only tests need is not waited for by whoever wants to see the demo.
$(VENV)/.installed $(VENV)/.demo: $(VENV)/.%: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12")'
	@echo "setting up $(VENV) from $(filter requirements/%,$^)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement $(filter requirements/%,$^)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
$(VENV)/.installed: requirements/dev.txt
$(VENV)/.demo: requirements/demo.txt

lock: $(VENV)/.installed ## writes requirements/*.txt anew from pyproject.toml
	for extra in operator localcloud demo dev; do \
	  [ $$extra = operator ] && flag= || flag="--extra $$extra"; \
	  $(COMPILE) pyproject.toml $$flag --output-file requirements/$$extra.txt || exit 1; \
	done
	printf 'openai>=2,<3\n' | $(COMPILE) - --output-file requirements/openai2.txt

binaries: $(VENV)/.installed
	@$(BIN)/python -m tests.support.binaries

demo: $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.demo) ## a running system with real resources, from nothing; ONCE=1 ends when everything is ready
	@$(BIN)/python -m tests.support.binaries demo
	@$(BIN)/python -m hack.demo $(if $(ONCE),--once)

test: binaries ## all tests but the long ones
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --passed $(PASSED) -m "not long" \
	  --ignore=tests/unit/engine --ignore=tests/unit/flows/managed
	@$(MAKE) --no-print-directory coverage
	$(BIN)/python -m hack.fidelity --ran $(PASSED)

coverage: $(VENV)/.installed ## unit tests of the engine and of managed kinds: every branch of these must be covered
	$(BIN)/coverage run -m pytest -q tests/unit/engine tests/unit/flows/managed
	$(BIN)/coverage report --fail-under=100

test-long: binaries ## the full fault plans and the largest object counts
	$(BIN)/pytest -m long

check: $(VENV)/.installed ## ruff, mypy --strict, import contracts, generated files up to date
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m relay_operator.crds --check

generate: $(VENV)/.installed ## CRDs, chart CRDs, RBAC and reference pages from the models
	$(BIN)/python -m relay_operator.crds

bench: binaries ## performance as ratios; writes bench/results.md
	$(BIN)/python -m bench

controlplane: $(VENV)/.installed ## starts a local API server that stays, prints its kubeconfig's path
	@$(BIN)/python -m tests.support.controlplane up

controlplane-down: $(VENV)/.installed ## ends it
	@$(BIN)/python -m tests.support.controlplane down
