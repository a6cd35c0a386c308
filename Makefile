# Everything a person or a machine runs. `make help` lists it.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PYTHONPATH := $(CURDIR)
NAME ?=
INTERACTIVE ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast lint format bench up down status docs lock clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create the virtual environment and install the pinned requirements

# The wheel of tritonserver asks for numpy < 2 but only its binary is used, so it goes in without its dependencies.
$(STAMP): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, 12)))' \
	  || { echo "Python 3.11 or 3.12 is needed: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { echo "the venv module is missing: apt-get install python3-venv"; exit 1; }
	@echo "installing the requirements into $(VENV) (about 4 GB, some minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements.txt \
	  2> >(grep -v '^WARNING: Location' >&2)
	@sed -n 's/^# --no-deps //p' requirements.txt \
	  | xargs $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps \
	  2> >(grep -v '^WARNING: Location' >&2)
	@touch $@

demo: setup ## Run real releases through the real pipeline (INTERACTIVE=1 waits for a person to sign)
	@$(BIN)/python -m local demo $(if $(INTERACTIVE),--interactive)

up: setup ## Start the embedded stack
	@$(BIN)/python -m local up

down: ## Stop the embedded stack and leave nothing behind
	@test ! -x $(BIN)/python || $(BIN)/python -m local down

status: ## Show what of the embedded stack runs
	@$(BIN)/python -m local status

test: setup ## Run all tests that this machine can run
	@$(BIN)/python -m pytest

test-fast: setup ## Run the tests that start no component
	@$(BIN)/python -m pytest tests/unit tests/dags

lint: setup ## ruff, mypy strict, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --config pyproject.toml

format: setup ## Format the code
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: setup ## Run all benchmarks, or one: make bench NAME=dag_parse
	@$(BIN)/python -m bench $(NAME)

docs: setup ## Write the generated pages
	@$(BIN)/python -m release_tasks schema > docs/release.schema.json
	@$(BIN)/python -m release_tasks schema --markdown > docs/spec.md

lock: setup ## Resolve pyproject.toml into requirements.txt (needs uv)
	@bash .ci/lock

clean: down ## Stop the stack and delete everything that was made
	@rm -rf .local bench/results
