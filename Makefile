# `make help` lists what there is. Each target installs what it lacks; a second run starts at once.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet

# Torch comes first and by its exact version: asked for loosely, pip may bring a CUDA build of several GB.
# Where the registry's own build is not the wanted one, name the index that pytorch.org shows for it:
#   make setup TORCH_ARGS="--index-url URL"
TORCH      := torch==$(shell sed -n 's/^torch==//p' constraints.txt)
TORCH_ARGS ?=

# Kernels that the kernel tests run against, each in a folder of its own. 6.31 wants the older nest-asyncio.
KERNELS        := 6.31.0 7.3.0 7.4.0
KERNEL_6_EXTRA := nest-asyncio==1.6.0
KERNEL_STAMPS  := $(KERNELS:%=.kernels/%/.installed)

PYTEST_ARGS ?=
ZOO_ARGS    ?=
APT := $(if $(filter 0,$(shell id -u)),,sudo )apt-get
LIMIT := OMP_NUM_THREADS=1

.PHONY: help
help: ## This list
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)


# ---------------------------------------------------------------- what the targets need

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed: $(PYTHON) was not found." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { $(APT) update -qq; $(APT) install -y -qq python3-venv; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install $(shell grep '^pip==' constraints.txt)

# torch in a step of its own, so that a change of the other packages leaves it alone.
$(VENV)/.torch: constraints.txt | $(BIN)/python
	@$(BIN)/python -c 'import sys, importlib.metadata as m; sys.exit(m.version("torch").split("+")[0] != "$(TORCH)".split("==")[1])' 2>/dev/null \
	  || { echo "Installing $(TORCH) …"; $(PIP) install --constraint constraints.txt $(TORCH_ARGS) $(TORCH); }
	@touch $@

$(VENV)/.installed: constraints.txt pyproject.toml $(VENV)/.torch
	@echo "Installing the other Python packages …"
	$(PIP) install --constraint constraints.txt hatchling
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

# Installing has built it already where there is a compiler; this is for a source that changed since.
NATIVE := nansense_widgets/stats/native
$(NATIVE)/.built: $(NATIVE)/fold.c $(NATIVE)/build.py $(VENV)/.installed
	@$(BIN)/python -m nansense_widgets.stats.native || true
	@touch $@

.kernels/%/.installed: | $(VENV)/.installed
	@rm -rf .kernels/$*
	$(PIP) install --no-deps --target .kernels/$* ipykernel==$* $(if $(filter 6.%,$*),$(KERNEL_6_EXTRA))
	@touch $@

js/node_modules/.installed: js/package.json js/package-lock.json
	@command -v npm >/dev/null || { echo "Node 20 is needed: npm was not found." >&2; exit 1; }
	@echo "Installing the Node packages …"
	cd js && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || { echo "Installing Chromium …"; $(APT) update -qq; $(APT) install -y -qq --no-install-recommends chromium; }


# ---------------------------------------------------------------- for users

.PHONY: setup
setup: $(VENV)/.installed $(NATIVE)/.built $(KERNEL_STAMPS) js/node_modules/.installed chromium ## Install everything: .venv, kernels, Node packages, Chromium

.PHONY: demo
demo: $(VENV)/.installed $(NATIVE)/.built ## Open the first notebook in JupyterLab (prints its address)
	@JUPYTER_PREFER_ENV_PATH=1 JUPYTER_CONFIG_PATH="$(CURDIR)/notebooks/.jupyter" $(BIN)/jupyter lab \
	  $$([ "$$(id -u)" != 0 ] || echo --allow-root) \
	  $$([ -n "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}" ] || [ "$$(uname)" = Darwin ] || echo --no-browser) \
	  --ServerApp.root_dir="$(CURDIR)/notebooks" --LabApp.default_url=/lab/tree/01_first_steps.ipynb


# ---------------------------------------------------------------- checks

# Documentation is built first, and all Python tests are one pytest run, so that its closing lines come last.
.PHONY: test
test: setup lint test-js test-docs ## Everything that must hold: lint, types, layers, JavaScript, docs, all tests
	$(LIMIT) $(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: test-fast
test-fast: $(VENV)/.installed $(NATIVE)/.built lint ## Lint, types, layers and the Python tests that need no browser, kernel or notebook
	$(LIMIT) $(BIN)/python -m pytest -m "not browser and not kernel and not notebook" $(PYTEST_ARGS)

.PHONY: lint
lint: $(VENV)/.installed ## ruff, the formatter, mypy --strict, import layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: $(VENV)/.installed ## Put the Python into its standard form
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

# The committed JavaScript must be what the sources give. Compared with the files, not with git: a change
# that was rebuilt passes before it is committed, and in a clone the files are the committed ones.
STATIC_SUMS = find nansense_widgets -path '*/static/*' -type f | LC_ALL=C sort | xargs -r sha256sum

.PHONY: test-js
test-js: js/node_modules/.installed
	cd js && npm test --silent
	@before=$$($(STATIC_SUMS)); $(MAKE) js; after=$$($(STATIC_SUMS)); \
	  diff <(echo "$$before") <(echo "$$after") \
	  || { echo "The built JavaScript was stale. It is rebuilt now: commit it." >&2; exit 1; }

.PHONY: test-docs
test-docs: docs

.PHONY: zoo
zoo: $(VENV)/.installed $(NATIVE)/.built ## Train every architecture of transformers with and without the debugger (half an hour)
	$(LIMIT) $(BIN)/python -m tests.zoo transformers $(ZOO_ARGS)

.PHONY: bench
bench: $(VENV)/.installed $(NATIVE)/.built chromium ## Measure what must stay fast, against its goals
	$(BIN)/python -m bench


# ---------------------------------------------------------------- what is built

.PHONY: js
js: js/node_modules/.installed ## Rebuild the widgets' JavaScript from js/
	cd js && npm run --silent build

.PHONY: docs
docs: $(VENV)/.installed ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: clean
clean: ## Remove all that was installed or built here (not the committed JavaScript)
	rm -rf $(VENV) .kernels js/node_modules site dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache \
	  .hypothesis tests/browser/screenshots $(NATIVE)/_fold.* $(NATIVE)/.built
	find . -name __pycache__ -prune -exec rm -rf {} +
