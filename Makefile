# `make demo`, `make test` and `make docs` set up everything they need in .venv: Python 3.10 or newer,
# pip and make are enough.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
FLOORS ?= $(VENV)-floors
# How pytest shares the tests between processes; `make test PARALLEL=` runs them in one.
PARALLEL ?= --numprocesses 2 --dist worksteal
# More options of pytest; CI has those of tests/support/drawn.py and --only-listed-skips.
OPTIONS ?=

# How long `make fuzz` and `make soak` go on, and in which sequence of programs.
MINUTES ?= 10
SEED    ?= $(shell date +%s)

.PHONY: demo docs test floors frameworks fuzz fuzz-plans fuzz-gpu-plans soak lint types layers check bench accept changelog clean

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

$(VENV)/.docs: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

demo: $(VENV)/.library
	$(BIN)/python -m bench.demo

# The site: open build/site/index.html in a browser. Links that lead nowhere are errors.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

test: $(VENV)/.installed
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci} $(BIN)/python -m pytest -q $(PARALLEL) $(OPTIONS)

# A small part of the tests with the oldest versions of what tc needs; no compiler of C is of them.
$(FLOORS)/.installed: tests/floors.txt
	$(PYTHON) -m venv $(FLOORS)
	$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

floors: $(FLOORS)/.installed
	PYTHONPATH=. $(FLOORS)/bin/python -m pytest -q -p no:cacheprovider tests/test_programs.py tests/verbs \
		-k 'not preset and not (test_a_verb_with_a_program and not interpret- and not numba)' spec/types.md spec/functions.md spec/ranges.md spec/api.md spec/rules.md

# The tests of PyTorch and JAX with the oldest versions that tc admits and the newest that pip finds,
# in an environment each; builds of PyTorch with CUDA take 6 GB of disk. Run it before each release,
# and name versions that pass in SEEN of torch_private.py and jax/unstable.py.
frameworks:
	for age in oldest newest; do \
		$(MAKE) --no-print-directory VENV=$(VENV)-$$age $(VENV)-$$age/.installed || exit 1; \
	done
	$(VENV)-oldest/bin/python -m pip install --quiet --requirement tests/frameworks.txt
	$(VENV)-newest/bin/python -m pip install --quiet --upgrade torch jax jaxlib flatbuffers
	status=0; for age in oldest newest; do \
		$(VENV)-$$age/bin/python -c "import sys, torch, jax; print('$$age: torch', torch.__version__, \
			'jax', jax.__version__, 'Python', *sys.version_info[:2])" && \
		$(VENV)-$$age/bin/python -m pytest -q $(PARALLEL) tests/torch tests/jax \
			tests/runtime/test_torch_layout_check.py \
			tests/runtime/test_inline_cache_torch.py tests/runtime/test_host_entry.py \
			|| status=1; \
	done; exit $$status

# generated programs against the interpreter; what fails is shrunk into build/fuzz
fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --count 1000000 --minutes $(MINUTES) --seed $(SEED) \
		--log build/fuzz/log.jsonl --found build/fuzz

# random plans for generated programs; what fails is shrunk into build/fuzz-plans
fuzz-plans: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz.plans --count 1000000 --minutes $(MINUTES) --seed $(SEED) \
		--log build/fuzz-plans/log.jsonl --found build/fuzz-plans

# the same for GPUs, on `kernel.evaluate` alone
fuzz-gpu-plans: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz.plans --gpus --count 1000000 --minutes $(MINUTES) --seed $(SEED) \
		--log build/fuzz-gpu-plans/log.jsonl --found build/fuzz-gpu-plans

# all verbs with all programs of the table; all texts for NVIDIA's GPUs on a machine for PTX; generated programs, tuned for a moment each; processes,
# threads, forks, kills, signals and full disks on one directory of kernels
soak: $(VENV)/.installed
	$(BIN)/python -m pytest -q --slow $(PARALLEL) tests/verbs tests/outside_check/test_wrong_tuner.py \
		tests/support/test_ptx_texts.py
	$(BIN)/python -m tests.soak.tunings --minutes $(MINUTES) --seed $(SEED)
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
	rm -rf $(VENV) $(VENV)-plain $(VENV)-oldest $(VENV)-newest $(FLOORS) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
