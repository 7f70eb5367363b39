# `make demo` and `make test` work from a bare checkout; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
BERTH := $(VENV)/bin/berth
ROOMS := pilot predictor policies plugin
TYPING := $(VENV)/typing
PYTEST := $(PY) -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
SELECTION ?= -m 'not slow'
CHAOS := tests/chaos:tests/support:tests/slurm:tests/flux

.PHONY: help venv tools emulators slurm flux-python clients deep browser demo test test-quick coverage mutation lint typecheck sizes audit \
