# make help says what there is. Every target makes the virtual environment that it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick chaos bench check format docs clean

help: ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## train on MovieLens-100K with processes of this machine
	$(BIN)/python submit.py examples/movielens.toml --executor local

test: $(STAMP) ## the whole suite; a real Slurm where it is installed
	$(BIN)/pytest -n 2 --dist loadgroup

test-quick: $(STAMP) ## what needs neither Slurm nor several processes
	$(BIN)/pytest -n 2 -m "not slurm and not processes"

chaos: $(STAMP) ## random kills, freezes and warnings, long; CHAOS_EVENTS=50, SEED=n repeats one
	HYBRIDJOB_CHAOS_EVENTS=$(or $(CHAOS_EVENTS),20) $(if $(SEED),HYBRIDJOB_CHAOS_SEED=$(SEED)) \
	    $(BIN)/pytest tests/hybridjob/test_chaos.py tests/integration/test_chaos_on_slurm.py

bench: $(STAMP) ## samples/s beside the tutorial, plain torch, TorchRec if installed, and the limit
	$(BIN)/python benchmarks/step.py $(BENCH)
	$(BIN)/python benchmarks/steady.py

check: $(STAMP) ## format, lint, types, direction of imports
	@failed=; for tool in "ruff format --check ." "ruff check ." "mypy" "lint-imports --no-logo"; do \
	    echo "== $$tool"; $(BIN)/$$tool || failed="$$failed [$$tool]"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

format: $(STAMP) ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP) ## write docs/job-file.md anew from the code
	$(BIN)/python -m hybridjob.reference > docs/job-file.md

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "hybridjob needs Python 3.10 or newer, $(PYTHON) is $$($(PYTHON) -V 2>&1): make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	    { echo "$(PYTHON) cannot make a virtual environment: install its venv package (Debian: apt-get install python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@
