# Everything a person or CI runs. Needs Python >= 3.11 and make; the rest installs itself.
#   make demo     three regions on this machine, 1,000 tasks, one region broken
#   make test     the test suite            make check    every static check
#   make up       embedded regions with delays between them, until Ctrl-C

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# More than cores: the integration tests wait on processes more than they compute.
TEST_WORKERS ?= 3
SEEDS ?= 1-3
# Where it is set, each of the suite's hundreds of processes would compile all sources anew: 1.4 s
# of processor time instead of 0.5 s.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help .venv demo up test test-long test-all check check-python check-proto check-lua check-deploy \
	check-words format gen bench bench-quick chaos wheel clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

.venv: .venv/.stamp

.venv/.stamp: pyproject.toml uv.lock tools/bootstrap.py
	@$(PYTHON) tools/bootstrap.py
	@touch $@

demo: .venv ## three regions, 1,000 tasks, one region broken; where everything went and why
	@$(BIN)/python -m examples.demo

up: .venv ## embedded regions in the foreground, with delays between them
	@$(BIN)/tradewind up --wan

test: .venv ## the test suite
	@$(BIN)/pytest -n $(TEST_WORKERS)

test-all: .venv ## the test suite on every form and version of Redis (8.2 and 7.0), a minute of chaos
	@$(BIN)/python tools/test_all.py -n $(TEST_WORKERS)

test-long: .venv ## the cases at full length: processes killed under load, floods (about an hour)
	@$(BIN)/pytest -m long

chaos: .venv ## random faults under load, judged from outside: 8 minutes a seed (SEEDS=1-10)
	@$(BIN)/python -m tests.chaos --seeds $(SEEDS)

check: check-python check-proto check-lua check-deploy check-words ## every static check

check-python: .venv ## ruff, pyright, import arrows
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

check-proto: .venv ## generated code up to date, lint, no breaking change
	$(BIN)/python tools/gen.py check
	$(BIN)/python tools/gen.py lint
	$(BIN)/python tools/gen.py breaking

check-lua: .venv ## luacheck on the Redis scripts
	$(BIN)/python tools/check_lua.py

check-deploy: .venv ## compose file and manifests against their schemas
	$(BIN)/python tools/check_deploy.py

check-words: .venv ## spelling
	$(BIN)/codespell

format: .venv ## rewrite Python sources as check wants them
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

gen: .venv ## code generated from proto/
	$(BIN)/python tools/gen.py gen

bench: .venv ## every figure of docs/performance.md, to bench/results/ (half an hour; an hour beside other queues)
	@$(BIN)/python -m bench

bench-quick: .venv ## the same, small, once (2 to 6 minutes): does every row still run?
	@$(BIN)/python -m bench --quick

wheel: .venv ## dist/tradewind-*.whl
	$(BIN)/python -m hatchling build -t wheel

clean: ## remove what the targets made, the environment included
	rm -rf .venv .ruff_cache .pytest_cache .hypothesis .import_linter_cache .tradewind dist build
