# `make demo` and `make test` set up everything they need in .venv: Python 3.10 or newer, pip and
# make are enough.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
FLOORS ?= $(VENV)-floors
# How pytest shares the tests between processes; `make test PARALLEL=` runs them in one.
PARALLEL ?= --numprocesses 2 --dist worksteal
# More options of pytest; CI has --tenth and --only-listed-skips (tests/support).
OPTIONS ?=

# How long `make fuzz` and `make soak` go on, and in which sequence of programs.
MINUTES ?= 10
SEED    ?= $(shell date +%s)

.PHONY: demo test floors fuzz fuzz-plans fuzz-gpu-plans soak lint types layers check bench accept changelog clean

# Where Python has no ensurepip, as Debian's, the pip beside it installs one.
$(VENV)/.made:
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m venv --without-pip $(VENV) && \
		$(PYTHON) -m pip --disable-pip-version-check --python $(BIN)/python install --quiet pip; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	touch $@

# The library alone, which the demo needs.
$(VENV)/.library: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

demo: $(VENV)/.library
	$(BIN)/python -m bench.demo

test: $(VENV)/.installed
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci} $(BIN)/python -m pytest -q $(PARALLEL) $(OPTIONS)

# A small part of the tests with the oldest versions of what tc needs; no compiler of C is of them.
$(FLOORS)/.installed: tests/floors.txt
	$(PYTHON) -m venv $(FLOORS)
	$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

floors: $(FLOORS)/.installed
	PYTHONPATH=. $(FLOORS)/bin/python -m pytest -q -p no:cacheprovider tests/test_programs.py \
		-k 'not preset and not -c]' spec/types.md spec/functions.md spec/ranges.md spec/api.md spec/rules.md

# generated programs against the interpreter; what fails is shrunk into build/fuzz
fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --programs 1000000 --minutes $(MINUTES) --seed $(SEED) \
		--log build/fuzz/log.jsonl --found build/fuzz

# random plans for generated programs; what fails is shrunk into build/fuzz-plans
fuzz-plans: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz.plans --plans 1000000 --minutes $(MINUTES) --seed $(SEED) \
		--log build/fuzz-plans/log.jsonl --found build/fuzz-plans

# the same for GPUs, on `kernel.evaluate` alone
fuzz-gpu-plans: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz.plans --gpus --plans 1000000 --minutes $(MINUTES) --seed $(SEED) \
		--log build/fuzz-gpu-plans/log.jsonl --found build/fuzz-gpu-plans

# processes, threads, forks, kills, signals and full disks on one directory of kernels
soak: $(VENV)/.installed
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) --log build/soak/log.txt

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

layers: $(VENV)/.installed
	$(BIN)/lint-imports

check: lint types layers

bench: $(VENV)/.installed
	$(BIN)/python -m bench.compile_time | tee bench/results/compile_time.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[bench]'
	$(BIN)/python -m bench.cpu --runs 3 --save

accept: $(VENV)/.installed
	$(BIN)/python -m pytest -q tests --accept

# The fragments of changelog.d become the section of a release: make changelog VERSION=1.2.3
changelog: $(VENV)/.installed
	$(BIN)/towncrier build --yes --version $(VERSION)

clean:
	rm -rf $(VENV) $(VENV)-plain $(FLOORS) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
