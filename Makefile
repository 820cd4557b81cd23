# `make demo` and `make test` do all set-up themselves: a virtual environment in .venv and every package in it.
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,\
	$(shell $(name) -c '$(SUITABLE)' 2>/dev/null && echo $(name))))
VENV ?= .venv
BIN := $(VENV)/bin
CORPUS ?=
WORD ?=
DEMO_DIR ?= demo
# Processes among which tests are spread, a file to one of them; each takes 2 GiB and more.
JOBS ?= 2

.PHONY: help demo test test-all lint install clean
.DEFAULT_GOAL := help

help:
	@echo "make demo [CORPUS=file] [WORD=word]  install, then embed, train on, export, serve and query"
	@echo "make test [JOBS=2]       install, then lint and all tests that take seconds, in JOBS processes"
	@echo "make test-all            the same, then the tests marked slow"
	@echo "make install             the virtual environment only, in $(VENV)"
	@echo "make clean               remove what the above made"

$(VENV)/.installed: setup.py pyproject.toml
	@$(or $(PYTHON),false) -c '$(SUITABLE)' || \
		{ echo "elmo_tf needs Python 3.11 to 3.13; name one: make PYTHON=/path/to/python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

install: $(VENV)/.installed

demo: install
	$(BIN)/python examples/demo.py --workdir $(DEMO_DIR) $(if $(CORPUS),--corpus '$(CORPUS)') $(if $(WORD),--word '$(WORD)')

# import-linter sees the mapped packages only in a real installation, from outside the checkout.
lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build $(VENV)/lint
	$(BIN)/python -m pip install --quiet --no-deps --target $(VENV)/lint .
	rm -rf build
	cd $(VENV)/lint && PYTHONPATH=. ../../$(BIN)/lint-imports --config ../../pyproject.toml --no-cache

test: lint
	$(BIN)/python -m pytest -m "not slow" --numprocesses $(JOBS) --dist loadfile

# One at a time: some of them hold a time against a limit.
test-all: test
	$(BIN)/python -m pytest -m slow

clean:
	rm -rf $(VENV) build dist *.egg-info demo .pytest_cache .ruff_cache
