# Thin over plain Python: README.md gives the same lines for machines without make.
#
#   make lab   [ARGS=--no-browser]      an environment with JupyterLab, opened on the first notebook
#   make test  [ARGS="-k grad -x"]      an environment with the test tools, and all tests
#   make notebooks                      run the notebooks again and save their outputs
#
# Further variables: PYTHON (3.11 or later), LAB_VENV, TEST_VENV, and TEST_PACKAGE (what is tested:
# this tree, or a wheel with its extras in brackets).

PYTHON ?= python3
LAB_VENV ?= .venv
TEST_VENV ?= .venv-test
LAB_PACKAGE ?= -e .[lab]
TEST_PACKAGE ?= -e .[test,lab,browser]
ARGS ?=

# JupyterLab asks root to say that it is meant; in a bare container there is nobody else.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Pullback needs Python 3.11 or later, and $(PYTHON) is " + sys.version.split()[0] + "; name another: make PYTHON=python3.12 ...")'
MAKE_VENV = $(PYTHON) -m venv $(1) || { rm -rf $(1); echo "No virtual environment could be made. On Debian and Ubuntu: sudo apt install python3-venv"; exit 1; }

.PHONY: help lab test test-env notebooks clean

help:
	@sed -n '3,8s/^# \{0,1\}//p' Makefile

lab: $(LAB_VENV)/.pullback-ready
	$(LAB_VENV)/bin/jupyter lab notebooks/00_first_steps.ipynb $(AS_ROOT) $(ARGS)

test: test-env
	$(TEST_VENV)/bin/python -m pytest $(ARGS)

notebooks: test-env
	$(TEST_VENV)/bin/python notebooks/refresh.py $(ARGS)

test-env: $(TEST_VENV)/.pullback-ready

$(LAB_VENV)/.pullback-ready: pyproject.toml
	@$(CHECK_PYTHON)
	@$(call MAKE_VENV,$(LAB_VENV))
	$(LAB_VENV)/bin/python -m pip install --quiet $(foreach part,$(LAB_PACKAGE),"$(part)")
	$(LAB_VENV)/bin/pullback install --sys-prefix
	@touch $@

$(TEST_VENV)/.pullback-ready: pyproject.toml
	@$(CHECK_PYTHON)
	@$(call MAKE_VENV,$(TEST_VENV))
	$(TEST_VENV)/bin/python -m pip install --quiet $(foreach part,$(TEST_PACKAGE),"$(part)")
	$(TEST_VENV)/bin/pullback install --sys-prefix
	@touch $@

clean:
	rm -rf $(LAB_VENV) $(TEST_VENV) build dist .pytest_cache .mypy_cache .ruff_cache
