# Every target sets up what it needs; `make` alone says what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

BIN := .venv/bin
# PYTEST="-k name -x" narrows a test run.
PYTEST ?=
# ONLY=fleet runs one benchmark; WRITE=1 puts what was measured into docs/benchmarks.md.
ONLY ?=
WRITE ?=

.PHONY: help setup demo demo-down test test-cluster test-cluster-full lint format bench clean

help: ## Say what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: ## Make .venv from the lock file
	@tools/setup

demo: setup ## A cluster of five real hosts on this machine (root), or the plan of it (no root)
	@tools/demo

demo-down: setup ## Take the demo down again
	@tools/demo down

test: setup ## Unit and integration tests
	@tools/packages test
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile $(PYTEST)

test-cluster: setup ## Tests on lab hosts: what CI runs
	@tools/packages lab
	@tools/test-cluster $(PYTEST)

test-cluster-full: setup ## Tests on lab hosts: all of them
	@tools/packages lab
	@tools/test-cluster --full $(PYTEST)

lint: setup ## Style, types, layers, generated pages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/reference.py --check
	$(BIN)/python tools/routes.py --check

format: setup ## Put the code in the one style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup ## Measure, side by side with others, and print the tables (ONLY=fleet: one; WRITE=1: into the docs)
	@tools/packages test
	@tools/setup bench
	@.venv-bench/bin/python -m compileall -q src/kubexm benchmarks # as an installed program is
	.venv-bench/bin/python -m benchmarks $(ONLY) $(if $(WRITE),--write)

clean: ## Remove what builds and tests left behind; .venv stays
	rm -rf artifacts build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
