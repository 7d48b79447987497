# Everything a fresh clone needs: each target makes the virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE := 1

.PHONY: demo test test-fast docs check format install clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "dualtta needs Python 3.11 or newer: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,digits,ray]'
	@touch $@

demo: install
	$(BIN)/dualtta run demo --launcher processes

test: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadscope -q

test-fast: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadscope -q -m "not slow"

docs: install
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis
