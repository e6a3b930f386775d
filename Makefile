# Stoker's commands. They need make and Python 3.11 or newer with venv and pip, nothing else.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 4

IN_VENV := $(VENV)/bin/python
CODE := src tests tools $(wildcard bench examples)

.DEFAULT_GOAL := help
.PHONY: help setup run test check format bench torture pictures pins clean

help: ## show this list
	@echo "make <target>, where target is one of"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

setup: ## make or refresh the environment in .venv
	@$(PYTHON) tools/environment.py $(VENV)

run: setup ## set up, then run the demo
	$(IN_VENV) -m stoker.demo

test: check ## set up, then run all checks and all tests
	$(IN_VENV) -m pytest -n $(WORKERS) --dist worksteal

check: setup ## set up, then run the checks that need no test run
	$(IN_VENV) -m ruff check
	$(IN_VENV) -m ruff format --check
	$(IN_VENV) -m mypy $(CODE)
	$(VENV)/bin/lint-imports --no-logo
	$(IN_VENV) -m deptry src
	$(VENV)/bin/codespell

format: setup ## set up, then put code into shape
	$(IN_VENV) -m ruff check --fix
	$(IN_VENV) -m ruff format

bench: setup ## set up, then measure
	$(IN_VENV) -m bench

torture: setup ## set up, then kill and stop processes and cut connections for SECONDS (300)
	STOKER_TORTURE_SECONDS=$(or $(SECONDS),300) STOKER_TORTURE_SEED=$(or $(SEED),1) $(IN_VENV) -m pytest -q -s tests/faults/test_kill.py tests/faults/test_cuts.py

pictures: setup ## set up, then redraw the pictures in the docs
	$(IN_VENV) -m tools.lifecycle
	$(IN_VENV) -m tools.cli_page

pins: ## resolve all packages anew into constraints.txt
	$(PYTHON) -m tools.pins

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools $(wildcard bench examples) -type d -name __pycache__ -prune -exec rm -rf {} +
