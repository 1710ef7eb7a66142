# One command each: see README.md. Everything is installed into .venv from requirements/*.txt.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Tests of a cluster mostly wait: seven workers for two cores. Each has a control plane of its own; a given cluster (RELAY_TEST_KUBECONFIG) serves a single
# one.
WORKERS ?= $(if $(RELAY_TEST_KUBECONFIG),0,$(shell $(PYTHON) -c 'import os; print(min(8, 7 * (os.cpu_count() or 1) // 2))'))
# Which fault plans `make test` plays, and with which seed the histories of `make test-long` begin.
SEED ?= $(shell $(PYTHON) -c 'import random; print(random.randrange(10**6))')
# Without cached byte code, each worker and each of hundreds of servers would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
# Which part of the derived fault plans `make test-long` plays, as 2/4.
PLANS ?= 1/1
DERIVED := $(addprefix tests/faults/test_every_,batch_call.py batch_freeze.py freeze.py call.py start.py)
HISTORIES := tests/faults/explorer/test_histories.py
PASSED := .pytest_cache/passed
SERVERLESS := tests/unit tests/model
OF_CLOUD := tests/localcloud tests/localcloud_client tests/objectstores
COVERED := tests/unit/budgets tests/unit/engine tests/unit/flows/managed
# Goes through 700,000 decisions, each of which another test covers: with coverage, it takes twice as long.
EVERY_VIEW := tests/unit/flows/managed/test_every_view.py
COMPILE = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
          --no-annotate --custom-compile-command "make lock" --quiet

.DEFAULT_GOAL := help
.PHONY: help binaries demo dev test others units model clouds test-node image node node-down kind test-kind test-long coverage check generate pictures docs package release-check bench bench-large bench-peers controlplane controlplane-down lock

help: ## what each target does
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The demo needs fewer packages than the tests, so it does not wait for all of them.
$(VENV)/.installed $(VENV)/.demo: $(VENV)/.%: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12")'
	@echo "setting up $(VENV) from $(filter requirements/%,$^)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement $(filter requirements/%,$^)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
$(VENV)/.installed: requirements/dev.txt
$(VENV)/.demo: requirements/demo.txt

$(VENV)/.docs $(VENV)/.release: $(VENV)/.%: requirements/%.txt
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

lock: $(VENV)/.installed ## rewrites requirements/*.txt from pyproject.toml
	for extra in operator demo dev; do \
	  [ $$extra = operator ] && flag= || flag="--extra $$extra"; \
	  $(COMPILE) pyproject.toml $$flag --output-file requirements/$$extra.txt || exit 1; \
	done
	for extra in docs release; do \
	  $(COMPILE) pyproject.toml --extra $$extra --constraint requirements/dev.txt --output-file requirements/$$extra.txt || exit 1; \
	done
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["localcloud"], sep="\n")' \
	  | $(COMPILE) - --output-file requirements/localcloud.txt
	printf 'openai>=2,<3\n' | $(COMPILE) - --output-file requirements/openai2.txt

binaries: $(VENV)/.installed
	@$(BIN)/python -m tests.support.binaries

demo: $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.demo) ## a running system with real resources, from nothing; ONCE=1 ends when everything is ready
	@$(BIN)/python -m tests.support.binaries demo
	@$(BIN)/python -m hack.demo $(if $(ONCE),--once)

dev: $(VENV)/.installed ## the same, to work on the code: a program whose code changes starts again; DEBUG=1 leaves the operator to a debugger
	@$(BIN)/python -m tests.support.binaries demo
	@$(BIN)/python -m hack.dev $(if $(DEBUG),--debugged)

test: binaries ## all tests except the long ones, and a sample of the fault plans; SEED=... takes the same sample again
	@$(MAKE) --no-print-directory -j4 SEED=$(SEED) others units model coverage clouds
	$(BIN)/python -m hack.fidelity --ran $(PASSED) $(PASSED)-clouds

others:
	@$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --progress --durations=10 --passed $(PASSED) \
	  -m "not long" --sample=$(SEED) $(addprefix --ignore=,$(SERVERLESS) $(OF_CLOUD) tests/node)

# In processes of their own: every worker loads all tests of its run, and most tests need no API server. One process
# each: to hand thousands of short tests to workers takes a quarter of their CPU.
units: $(VENV)/.installed
	@$(call quietly,units,pytest,-p no:xdist -m "not long" $(addprefix --ignore=,$(COVERED)) tests/unit)

model: $(VENV)/.installed
	@$(call quietly,model,pytest,-p no:xdist -m "not long" tests/model $(EVERY_VIEW))

# Make begins it when one of the former has ended, while tests of a cluster mostly wait.
clouds: $(VENV)/.installed
	@$(call quietly,clouds,pytest,-n 4 --dist loadfile --no-loadscope-reorder -m "not long" --passed $(PASSED)-clouds $(OF_CLOUD))

# Says in one line how many tests passed, or all if one failed.
quietly = mkdir -p .pytest_cache && { $(BIN)/$(2) -q $(3) > .pytest_cache/$(1) 2>&1 || { cat .pytest_cache/$(1); exit 1; }; } && \
	  echo "$(1): $$(tail -n 1 .pytest_cache/$(1))"

coverage: $(VENV)/.installed ## unit tests of the engine, of budgets and of managed kinds: every branch of these must be covered
	@$(call quietly,coverage,coverage run -m pytest,$(COVERED) --ignore=$(EVERY_VIEW))
	@$(BIN)/coverage report --fail-under=100

test-node: binaries ## the operator's image and chart on a whole Kubernetes node; Linux and root
	$(BIN)/pytest --progress --durations=10 tests/node

# Workers wait most of the time, more so with derived plans and histories; with more of them than the cores can carry, Leases expire.
# Each has one or two control planes, a cloud and up to two operators: 1.5 GB.
a_core = $(if $(RELAY_TEST_KUBECONFIG),0,$(shell $(PYTHON) -c 'import os; print($(1) * (os.cpu_count() or 1))'))
# Every part runs; the target fails at the end if one of them failed.
test-long: binaries ## every fault plan, random histories (SEED), the largest counts; PLANS=2/4 plays the second quarter of the derived plans
	trap 'exit 1' INT; failed=0; \
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --progress --durations=10 -m "long or every_run" --ignore=tests/faults || failed=1; \
	$(BIN)/pytest -n $(call a_core,4) --dist worksteal --progress --durations=10 $(addprefix --ignore=,$(DERIVED) $(HISTORIES)) tests/faults || failed=1; \
	$(BIN)/pytest -n $(call a_core,6) --dist load --maxschedchunk=1 --progress --durations=10 -m long --plans=$(PLANS) --histories-from=$(SEED) $(HISTORIES) $(DERIVED) || failed=1; \
	exit $$failed

check: $(VENV)/.installed ## ruff, mypy --strict, import contracts, generated files up to date
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m relay_operator.crds --check

generate: $(VENV)/.installed ## CRDs, chart CRDs, RBAC, health for Argo CD and reference pages from the models
	$(BIN)/python -m relay_operator.crds

pictures: binaries ## takes the console's pictures in docs/localcloud again
	$(BIN)/pytest --pictures tests/localcloud/console/test_pictures.py

docs: $(VENV)/.docs ## the site of docs/ into dist/docs; a link or an anchor that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

package: $(VENV)/.release ## the files of a release into dist/release; TAG=v1.2.3, if given, must match the version
	@$(BIN)/python -m hack.release package --tag=$(TAG)

release-check: $(VENV)/.release ## the same, then installs, pushes, signs and verifies them on this machine
	@$(BIN)/python -m hack.release check --tag=$(TAG)

bench: binaries ## performance as ratios; writes bench/results.md
	$(BIN)/python -m bench

bench-large: binaries ## the same with 100,000 GpuPods in one process; about ten minutes, 10 GB of memory
	$(BIN)/python -m bench --only large

bench-peers: binaries ## the same beside provider-http; PROVIDER_HTTP=... is a clone of its repository with the built program `provider` in it
	$(BIN)/python -m bench --only peers --provider-http $(PROVIDER_HTTP)

image: $(VENV)/.installed ## the images of the operator and of the local cloud, as docker-archives, without Docker; Linux and root
	@$(BIN)/python -m hack.node image

node: $(VENV)/.installed ## a whole Kubernetes node that stays, prints its kubeconfig's path; Linux and root
	@$(BIN)/python -m hack.node up

node-down: $(VENV)/.installed ## ends that node
	@$(BIN)/python -m hack.node down

kind: ## a kind cluster with both images, the chart and examples/; KIND="--image ..." passes options to kind
	hack/kind/up.sh $(KIND)
	hack/kind/install.sh

test-kind: ## the tests of test-node on that cluster
	hack/kind/journeys.sh

controlplane: $(VENV)/.installed ## starts a local API server that stays, prints its kubeconfig's path
	@$(BIN)/python -m tests.support.controlplane up

controlplane-down: $(VENV)/.installed ## ends that API server
	@$(BIN)/python -m tests.support.controlplane down
