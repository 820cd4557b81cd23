# Each target does all set-up itself: a virtual environment in .venv and every package in it.
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,\
	$(shell $(name) -c '$(SUITABLE)' 2>/dev/null && echo $(name))))
# The versions of requirements_lock.txt or, in a virtual environment of its own, of requirements_oldest.txt.
CONSTRAINTS ?= lock
VENV ?= .venv$(patsubst %,-%,$(filter-out lock,$(CONSTRAINTS)))
PINS := requirements_$(CONSTRAINTS).txt
BIN := $(VENV)/bin
CORPUS ?=
WORD ?=
DEMO_DIR ?= demo
# Processes among which tests are spread; each needs up to 3 GB of memory.
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest --numprocesses $(JOBS)
LARGE := tests/embedding tests/models tests/tasks tests/trainers

.PHONY: help demo test test-more test-slow test-all docs lint install lock clean
.DEFAULT_GOAL := help

help:
	@echo "make demo [CORPUS=file] [WORD=word]  install, then embed, train on, export, serve and query"
	@echo "make test [JOBS=2]       install, then lint and the fast tests, in JOBS processes"
	@echo "make test CONSTRAINTS=oldest  the same with the oldest versions that are allowed"
	@echo "make test-more           tests of packaging, docs, browser, C, Node and several"
	@echo "                         processes, and trainings until something is learned"
	@echo "make test-all            all of these, and the tests marked slow"
	@echo "make docs                the documentation site, in docs/_build/html"
	@echo "make lock                requirements_lock.txt with the newest versions"
	@echo "make install             the virtual environment only, in $(VENV)"
	@echo "make clean               remove everything that these commands made"

$(VENV)/.installed: setup.py pyproject.toml $(PINS)
	@$(or $(PYTHON),false) -c '$(SUITABLE)' || \
		{ echo "elmo_tf needs Python 3.11 to 3.13. Specify one: make PYTHON=/path/to/python3.12 …" >&2; exit 1; }
	@echo "Installing into $(VENV), once. 1 of 3: a virtual environment"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@echo "2 of 3: all packages; TensorFlow is large, so this takes some minutes"
	$(BIN)/python -m pip install --no-compile --editable '.[dev]' --constraint $(PINS)
	@echo "3 of 3: compiling them"
	$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib  # pip compiles in one process only
	@touch $@

install: $(VENV)/.installed

lock: install
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --upgrade --no-annotate \
		--custom-compile-command "make lock" --output-file requirements_lock.txt

demo: install
	$(BIN)/python examples/demo.py --workdir $(DEMO_DIR) $(if $(CORPUS),--corpus '$(CORPUS)') $(if $(WORD),--word '$(WORD)')

# import-linter sees the mapped packages only in a non-editable installation, outside the checkout.
lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build $(VENV)/lint
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --no-build-isolation --target $(VENV)/lint .
	rm -rf build
	cd $(VENV)/lint && PYTHONPATH=. ../../$(BIN)/lint-imports --config ../../pyproject.toml --no-cache

# Two parts, each with new processes, which bounds their memory.
test:
	@echo "Lint and the fast tests: about nine minutes on two cores, and some for the first installation"
	@$(MAKE) --no-print-directory lint
	$(PYTEST) -m "not slow and not more" --quick --dist loadfile $(LARGE)
	$(PYTEST) -m "not slow and not more" --quick --dist loadfile tests $(LARGE:%=--ignore %)

test-more: install
	$(PYTEST) -m "more and not slow" --dist worksteal

# One at a time: some of them compare a time with a limit.
test-slow: install
	$(BIN)/python -m pytest -m slow

test-all: test test-more test-slow

docs: install
	$(BIN)/sphinx-build --fail-on-warning --fresh-env --quiet docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

clean:
	rm -rf .venv .venv-* build dist *.egg-info demo docs/_build docs/reference/commands.md .pytest_cache .ruff_cache
