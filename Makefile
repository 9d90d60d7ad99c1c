# The user's two commands are `make demo` and `make test`; each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
READY := $(VENV)/.ready
TRAIN_READY := $(VENV)/.ready-train
RAY_VENV := .venv-ray
RAY_READY := $(RAY_VENV)/.ready

.PHONY: help setup demo test test-slow test-train test-ray check format chaos-broker fuzz-broker bench bench-broker bench-drift bench-fleet bench-registry bench-serve bench-training demo-drift simulate-fleet models lock test-packages dataset clean
.DEFAULT_GOAL := help

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | column -t -s '	'

setup: $(READY) ## the virtual environment, every version as locked

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Hybridge needs Python 3.11 or newer; name one: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(TRAIN_READY): $(READY) requirements-train.lock
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-train.lock
	@touch $@

$(RAY_READY): requirements-train.lock pyproject.toml
	$(PYTHON) -m venv $(RAY_VENV)
	$(RAY_VENV)/bin/pip install --quiet --disable-pip-version-check -r requirements-train.lock
	$(RAY_VENV)/bin/pip install --quiet --disable-pip-version-check --constraint requirements-train.lock --no-build-isolation --editable '.[ray]'
	@touch $@

test-packages:
	@(PATH="$$PATH:/usr/sbin:$$(echo /usr/lib/postgresql/*/bin)"; command -v mosquitto && command -v openssl && command -v initdb) >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq mosquitto openssl postgresql; }

dataset:
	@test -e /usr/share/datasets/fashion-mnist || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq dataset-fashion-mnist; }

demo: $(READY) ## the main job: broker, cloud worker, three agents, 2,000 real images, one table
	$(BIN)/hybridge demo

demo-drift: $(TRAIN_READY) dataset ## cameras drift; an alarm, a training job and a rollout mend it: two minutes
	$(BIN)/hybridge demo drift

test: $(READY) test-packages ## the tests, some 25 minutes on 2 cores
	$(BIN)/python -m pytest -q -m "not slow and not train and not ray"

test-slow: $(READY) test-packages ## the device wheel in a clean environment, brokers with faults built in, rollouts to twenty agents: a quarter of an hour
	$(BIN)/python -m pytest -q -m "slow and not train and not ray"

test-train: $(TRAIN_READY) ## what needs torch: fitting, jobs killed and resumed, several processes, recipes
	$(BIN)/python -m pytest -q -m "train and not ray"

test-ray: $(RAY_READY) ## a job over a Ray cluster of two nodes on this machine, in an environment of its own (1.1 GB)
	$(RAY_VENV)/bin/python -m pytest -q -m ray

check: $(READY) ## ruff, mypy strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

bench: $(READY) ## ratios against the floor measured in the same run
	$(BIN)/python -m simulations.benchmarks

bench-broker: $(READY) test-packages ## the embedded broker beside Mosquitto, the same loads in turn: ten minutes
	$(BIN)/python -m simulations.broker_bench

bench-drift: $(TRAIN_READY) dataset ## the whole loop under each of the six shifts, into README.md: half an hour
	$(BIN)/python -m simulations.drift_loop --write README.md --plot docs/drift-recovery.svg

bench-training: $(TRAIN_READY) dataset ## the online tier's p99 with and without a training job beside it: eight minutes
	$(BIN)/python -m simulations.training_bench

bench-fleet: $(READY) ## 2,000 connected devices on one control process, 100,000 on virtual time, into BENCHMARKS.md: two minutes
	$(BIN)/python -m simulations.fleet_bench --write BENCHMARKS.md

bench-registry: $(READY) test-packages ## the registry beside a plain HTTP copy and bsdiff, SQLite beside PostgreSQL, into BENCHMARKS.md: three minutes
	$(BIN)/python -m simulations.registry_bench --write BENCHMARKS.md

bench-serve: $(READY) ## the inference tier beside Triton, Mosec, MLServer and others, into BENCHMARKS.md: 25 minutes
	@command -v wrk >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq wrk; }
	$(BIN)/python -m simulations.serve_bench --write BENCHMARKS.md --plot docs/serve-bench.svg

MINUTES ?= 10
SEEDS ?= 2000

simulate-fleet: $(READY) ## SEEDS=2000 small fleets with everything wrong at once, every invariant checked
	$(BIN)/hybridge simulate many --count $(SEEDS)

chaos-broker: $(READY) test-packages ## kill -9, cut and crowd the embedded broker for MINUTES=10, then check every promise
	$(BIN)/python -m simulations.broker_chaos --minutes $(MINUTES)

fuzz-broker: $(READY) ## broken packets of the whole grammar against the embedded broker for MINUTES=10
	$(BIN)/python -m simulations.broker_fuzz --minutes $(MINUTES)

models: $(TRAIN_READY) dataset ## train, quantize and calibrate both models: one to two hours on 2 cores
	$(BIN)/python -m cloud.training.recipe --models models --runs runs

lock: ## pin anew what pyproject.toml asks for
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet --upgrade pip
	build/lock/bin/pip install --quiet --group dev '.[edge,cloud,openvino,postgresql,triton,train]'
	build/lock/bin/pip freeze --exclude hybridge | grep -v ' @ ' | sed 's/+cpu$$//' > requirements-train.lock
	rm -rf build/lock && $(PYTHON) -m venv build/lock # what all parts need, at the versions that training has too
	build/lock/bin/pip install --quiet --upgrade pip
	build/lock/bin/pip install --quiet --constraint requirements-train.lock --group dev '.[edge,cloud,openvino,postgresql,triton]'
	build/lock/bin/pip freeze --exclude hybridge | grep -v ' @ ' > requirements.lock

clean:
	rm -rf $(VENV) $(RAY_VENV) build dist runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
