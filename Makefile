# `make demo` and `make test` need only Python 3.11+, make and a C compiler: everything else is installed into $(VENV).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all test-processors faults verify-sample docs lint types architecture format clean

$(VENV)/.base: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[demo]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[dev]'
	touch $@

$(VENV)/.docs: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[docs]'
	touch $@

demo: $(VENV)/.base
	$(BIN)/rein demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -q -m 'not learning'
	$(BIN)/python -m pytest -q -m learning

# The tests with every set of instructions that torch has kernels for, on one thread and on two; half an hour. Threads that
# wait without spinning: four of them on two cores would take several times as long.
test-processors: $(VENV)/.dev
	for capability in default avx2 avx512; do for threads in 1 2; do \
		echo "ATEN_CPU_CAPABILITY=$$capability OMP_NUM_THREADS=$$threads"; \
		ATEN_CPU_CAPABILITY=$$capability OMP_NUM_THREADS=$$threads OMP_WAIT_POLICY=passive \
			$(BIN)/python -m pytest -n 2 --dist worksteal -q || exit 1; \
	done; done

# Some 2,000 injected faults; writes docs/reliability.md.
faults: $(VENV)/.dev
	$(BIN)/python -m tests.faults.campaign

# The site into site/; fails on a dead link. Open site/index.html.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python -m tools.docs.links site

# One seed of three records, chosen by the date, trained again; at most 15 minutes.
verify-sample: $(VENV)/.dev
	$(BIN)/rein verify --sample 3 --budget-minutes 15

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

architecture: $(VENV)/.dev
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build site *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
