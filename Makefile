# Two commands on a fresh machine: `make train` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
SET_UP := .venv/set-up

.PHONY: train test test-all mutants goldens lint types format docs evidence figures clean

train: $(SET_UP)
	$(BIN)/python -m prudent.cli.tutorial

test: $(SET_UP)
	$(BIN)/python -m pytest -n 2 -m "not slow"

# The longer ones only: with `make test` that is all of them.
test-all: $(SET_UP)
	$(BIN)/python -m pytest -n 2 -m slow

# Short runs of the version before and of this tree, whose records must be equal to the byte.
goldens: $(SET_UP)
	$(BIN)/python tests/goldens/compare.py

# Which single changes to the package no fast test notices. Hours of work, and no part of `test`.
mutants: $(SET_UP)
	$(BIN)/python tests/mutants/run.py --jobs 2 --out .pytest_cache/mutants.json

lint: $(SET_UP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(SET_UP)
	$(BIN)/mypy prudent prudent_bidding

format: $(SET_UP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site in site/. Any broken link or warning is an error; the build itself needs no network.
docs: $(SET_UP)-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The runs that the pages of results still lack, kept in results/: hours of work, which resumes.
evidence: $(SET_UP)
	$(BIN)/python results/gather.py

# The pictures and tables on the pages of results, from the records in results/.
figures: $(SET_UP)
	$(BIN)/python results/redraw.py

$(SET_UP)-docs: $(SET_UP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

$(SET_UP): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit('prudent needs Python 3.11 or newer, this is %d.%d: make PYTHON=python3.12 ...' % sys.version_info[:2] if sys.version_info < (3, 11) else 0)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,onnx,tensorboard]"
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
