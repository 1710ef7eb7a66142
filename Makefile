# One command each: see README.md. Everything is installed into .venv from requirements/*.txt.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-long check generate bench controlplane controlplane-down lock

help: ## what each target does
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: requirements/dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lock: $(VENV)/.installed ## writes requirements/*.txt anew from pyproject.toml
	for extra in operator localcloud dev; do \
	  [ $$extra = operator ] && flag= || flag="--extra $$extra"; \
	  $(BIN)/uv pip compile pyproject.toml $$flag --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-annotate --custom-compile-command "make lock" --quiet --output-file requirements/$$extra.txt || exit 1; \
	done
