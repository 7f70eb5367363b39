# `make demo` and `make test` work from a bare checkout; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
BERTH := $(VENV)/bin/berth
ROOMS := pilot predictor policies plugin
TYPING := $(VENV)/typing
PYTEST := $(PY) -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
SELECTION ?= -m 'not slow'

.PHONY: help venv tools emulators slurm clients deep browser demo test test-quick coverage mutation guards lint typecheck sizes audit \
  gate gate-full bench month schemas screenshots site differential test-flux differential-flux matrix \
  mig-sweep simulate soak fresh-site replay-fidelity fuzz packages packages-check lock \
  lowest newest-python optional nightly clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Berth needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || deploy/system-packages python3-venv
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet -e '.[dev]'
	@mkdir -p $(TYPING)/berth
	@for room in $(ROOMS); do ln -sfn ../../../$$room $(TYPING)/berth/$$room; done
	@touch $@

venv: $(VENV)/.ready  ## the development environment in .venv

tools:  ## a C compiler and valgrind, installed when missing and allowed
	@deploy/system-packages gcc libc6-dev valgrind

emulators:  ## qemu-user and cross compilers for the tests on other CPUs; optional
	@deploy/system-packages --optional qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
	  gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross

slurm:  ## Slurm's daemons for the tests on a private cluster, likewise
	@deploy/system-packages --optional slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge \
	  lua5.1 lua-socket lua-cjson
	@deploy/system-packages --optional slurmdbd slurm-wlm-mysql-plugin mariadb-server

clients: venv  ## workflow systems that submit to Slurm, in an environment of their own, for the tests; optional
	@test -x $(VENV)/clients/bin/reframe \
	  || { $(PYTHON) -m venv $(VENV)/clients \
	  && $(VENV)/clients/bin/pip install --quiet 'submitit==1.5.4' 'reframe-hpc==4.10.4' 'dask-jobqueue==0.9.0' \
	    'distributed==2026.8.0' 'dask==2026.8.0' 'parsl==2026.10.26' 'snakemake==9.27.1' \
	    'snakemake-executor-plugin-slurm==2.8.0'; } \
	  || echo "no workflow systems here: the tests that need them are skipped" >&2
	@deploy/system-packages --optional r-cran-batchtools

deep: venv  ## PyTorch and transformers, for training networks and their tests; optional
	@$(PY) -c 'import torch' 2>/dev/null || $(PY) -m pip install --quiet -e '.[dev,deep]' \
	  || echo "no PyTorch here: the tests that need it are skipped" >&2
	@$(PY) -c 'import peft, transformers' 2>/dev/null \
	  || $(PY) -m pip install --quiet -e '.[dev,language]' \
	  || echo "no transformers here: the tests that need it are skipped" >&2

demo: venv tools  ## the main job: measure three programs, decide where each belongs
	BERTH=$(BERTH) deploy/demo/run

browser: venv  ## Chromium for the tests of the page; optional
	@deploy/system-packages --optional chromium

screenshots: venv browser  ## the pictures of the page in the documentation, by its test
	mkdir -p build/screenshots
	BERTH_SCREENSHOTS=$(abspath build/screenshots) $(PY) -m pytest -q tests/plugin/ui/test_ui_in_a_browser.py
	cp $(foreach view,overview jobs mig place predict,build/screenshots/$(view).png) docs/pictures/

schemas: venv  ## docs/schemas: what commands print with --json
	PYTHONPATH=tests/support:tests/nvml:tests/slurm:tests/flux:tests/plugin/scheduler:. $(PY) tests/support/written_schemas.py

test: venv tools emulators slurm clients deep browser  ## every test but the slow ones; all of them with SELECTION=
	$(PYTEST) --durations 15 $(SELECTION)

test-quick: venv  ## the tests that need no Slurm and no valgrind
	$(PYTEST) -m 'not slow and not slurm and not flux and not valgrind'

gate: deep  ## every headline figure of the docs: before, tolerance, now; 1 where one is worse
	$(PY) -m lab gate

gate-full: deep  ## the same with the long ones; hours
	$(PY) -m lab gate --full

coverage: venv  ## lines of policies/ and plugin/ that the tests run, at least 92 %; SELECTION= of tests; half an hour
	mkdir -p build/coverage && $(PY) -m coverage erase
	$(PY) -m coverage run -m pytest --numprocesses auto --dist loadfile $(SELECTION); tests=$$?; \
	  $(PY) -m coverage combine -q && $(PY) -m coverage report --fail-under 92 && exit $$tests

MUTATED := plugin/fingerprint.py $(addprefix plugin/daemon/,service.py verdicts.py protocol.py requests.py record.py \
  recognised.py) $(addprefix policies/,decide.py present.py constraints.py edits.py lists.py bounds.py limits.py \
  resources.py ranking.py gate.py staying.py)

mutation: venv  ## how many changes of the submit path its tests notice, of COUNT=200 drawn with SEED=; hours with all
	test -x .venv-mutation/bin/cosmic-ray || { python3 -m venv .venv-mutation && \
	  .venv-mutation/bin/pip install -q 'cosmic-ray~=8.7'; }
	.venv-mutation/bin/python tests/mutation/mutants.py --sample $(or $(COUNT),200) --seed $(or $(SEED),1) $(MUTATED) \
	  | $(PY) tests/mutation/killed.py

guards: venv tools slurm  ## fifteen guards of the promise, switched off one by one: which the random jobs notice; an hour
	PYTHONPATH=tests/slurm:tests/support $(PY) tests/mutation/guards.py

lint: venv  ## style, import direction, bandit's findings
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports
	$(PY) -m bandit -q -c pyproject.toml -r $(ROOMS) lab

sizes: venv  ## lines, files, options, keys and words of pages, beside their bars
	@$(PY) benchmarks/sizes.py

audit: venv  ## published advisories on what is installed; fails where the service is not reached
	$(VENV)/bin/pip install -q -e '.[audit]'
	$(PY) deploy/audit

typecheck: venv  ## mypy --strict
	@cd $(TYPING) && MYPYPATH=.:../.. ../../$(VENV)/bin/mypy --config-file ../../pyproject.toml \
	  $(foreach room,$(ROOMS),-p berth.$(room)) -p lab

differential: venv tools slurm  ## 5,000 random jobs with and without Berth on real Slurms, and 1,000 that run to their end; goes on where it was stopped
	PYTHONPATH=tests/slurm:tests/support $(PY) -m slurm_differential.run --pairs 5000 --outcomes 1000

test-flux: venv  ## every test on a real Flux; fails where no `flux` is on PATH, or a test is skipped
	@command -v flux || { echo 'NOT TESTED: no `flux` on PATH; build flux-core and add it' >&2; exit 1; }
	BERTH_NO_SKIPS=1 $(PYTEST) -rs tests/flux tests/scheduler

differential-flux: venv  ## 2,000 random jobs with and without Berth on real Flux instances, likewise
	PYTHONPATH=tests/flux:tests/support $(PY) -m flux_differential.run --pairs 2000

packages: venv  ## every package from one build of the wheel, in dist/ (docs/install.md)
	@deploy/system-packages --optional rpm
	$(PY) deploy/packages/build_packages.py dist

packages-check: venv  ## the packages on a clean Debian: install, run, upgrade, roll back, remove (as root; 15 minutes)
	@deploy/system-packages debootstrap rpm
	$(PY) -m pytest -q -s -p no:randomly tests/packaging/packages_on_debian.py

lock: venv  ## the newest versions of what the packages carry, with digests
	@$(PY) -c 'import uv' 2>/dev/null || $(PY) -m pip install --quiet 'uv~=0.13'
	$(PY) -m uv pip compile --quiet --universal --generate-hashes --no-annotate --upgrade \
	  --extra metrics --extra postgresql --output-file deploy/packages/requirements.lock pyproject.toml

lowest: venv  ## the quick tests under the lowest version that pyproject.toml allows of each dependency
	@$(PY) -c 'import uv' 2>/dev/null || $(PY) -m pip install --quiet 'uv~=0.13'
	$(PY) -m uv venv --quiet --seed --allow-existing --python $(PY) .venv-lowest
	$(PY) -m uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct -e '.[dev]'
	.venv-lowest/bin/python -m pytest -q --numprocesses auto -m 'not slurm and not flux and not valgrind and not slow'

newest-python: venv  ## the wheel without extras under each Python here, then it and the quick tests under that of Debian's sid (as root)
	tests/packaging/wheel_alone
	@deploy/system-packages debootstrap
	tests/packaging/newest_python

optional: venv slurm  ## the tests that need MPI, other shells, NVRTC or time to themselves: none may be skipped
	@deploy/system-packages --optional openmpi-bin libopenmpi-dev iproute2 zsh fish systemd
	$(PY) -m pip install --quiet -e '.[dev,gpu]'
	BERTH_NO_SKIPS=1 $(PYTEST) -rs tests/plugin/test_completion.py \
	  tests/plugin/test_service_unit.py tests/pilot/test_gpu_bench.py tests/pilot/measure/test_network_links.py

matrix: venv  ## the cases of the promise and 1,000 random pairs under the Slurms of Debian 13 and sid (as root)
	tests/slurm/matrix trixie 1000
	tests/slurm/matrix sid 1000

mig-sweep: venv tools slurm  ## every fault at every NVML call of an apply, counted (long)
	BERTH_MIG_SWEEP=full $(PY) -m pytest tests/plugin/mig/test_faults.py \
	  tests/plugin/mig/test_crash_points.py --timeout=1800 -q

simulate: venv  ## 1,000,000 submissions with faults at every call; SEED= and COUNT= for others
	PYTHONPATH=tests/simulation:tests/support PYTHONHASHSEED=0 $(PY) -m simulator --table \
	  --seed $(or $(SEED),1) --count $(or $(COUNT),1000000) --least $(if $(COUNT),0,100)

soak: venv  ## 24 hours of submissions on a simulated clock: nothing may grow; HOURS=
	PYTHONPATH=tests/simulation:tests/support PYTHONHASHSEED=0 $(PY) -m simulator.soak --hours $(or $(HOURS),24)

fresh-site: FRESH_SITE = cd tests/slurm && PYTHONPATH=../support $(abspath $(PY)) fresh_site.py --set $(or $(SET),known)
fresh-site: venv tools slurm  ## calibrate two kinds of nodes, place real programs there, learn from one job each; SET=new or third, ONLY=gawk,bwa
	@deploy/system-packages --optional $$($(FRESH_SITE) --packages)
	$(FRESH_SITE) $(if $(ONLY),--only $(ONLY))

replay-fidelity: venv slurm  ## 500 jobs on a private Slurm and in a replay, three times by FIFO and by backfill; 40 minutes
	cd tests/slurm && PYTHONPATH=../support $(abspath $(PY)) replay_fidelity.py

site: venv  ## the documentation as a site and a man page, in build/
	$(PY) -c 'import sphinx' 2>/dev/null || $(PY) -m pip install --quiet -e '.[docs]'
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet -b html docs build/site
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet -b man docs build/man

bench: venv tools slurm  ## every speed and size bar, as tables with the machine named; TRACE= for replays, NAMES=
	$(PY) benchmarks/run_all.py $(if $(TRACE),--trace $(TRACE)) $(NAMES)

month: venv  ## the week after an imported month: Berth beside a plain list, users' habits and an oracle, and the aims; OPTIONS=
	$(PY) benchmarks/month.py $(OPTIONS)

fuzz: venv  ## every reader of others' input under Atheris; TARGET=, COUNT=, or REPLAY= of one input
	@$(PY) -c 'import atheris' 2>/dev/null || $(PY) -m pip install --quiet -e '.[dev,fuzz]'
	PYTHONPATH=tests/fuzz:tests/support:tests/flux:. $(PY) tests/fuzz/run_fuzz.py $(or $(TARGET),all) \
	  --count $(or $(COUNT),1000000) $(if $(REPLAY),--replay $(REPLAY))

nightly: venv tools slurm  ## what make test and .ci/run leave out, one after the other, and a table of it; hours; NAMES= of targets
	$(PY) tests/nightly.py $(NAMES)

clean:  ## remove the environment and build output
	rm -rf $(VENV) build dist *.egg-info
