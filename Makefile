# `make demo` and `make test` work from a bare checkout; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
ROOMS := pilot predictor policies plugin
TYPING := $(VENV)/typing

.PHONY: help venv system demo test lint typecheck bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet -e '.[dev]'
	@mkdir -p $(TYPING)/berth
	@for room in $(ROOMS); do ln -sfn ../../../$$room $(TYPING)/berth/$$room; done
	@touch $@

venv: $(VENV)/.ready  ## the development environment in .venv

lint: venv  ## style and import direction
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports

typecheck: venv  ## mypy --strict
	cd $(TYPING) && MYPYPATH=. ../../$(VENV)/bin/mypy --config-file ../../pyproject.toml -p berth.pilot -p berth.predictor -p berth.policies -p berth.plugin

test: venv  ## every test
	$(PY) -m pytest

clean:  ## remove the environment and build output
	rm -rf $(VENV) build dist *.egg-info
