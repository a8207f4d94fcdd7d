# make run    serve the calculator        make test   every test, the browser ones too
# make check  format, lint, types, imports   make bench  speed, side by side with a bare endpoint
# make fuzz   20,000 hostile requests, every check of the API's contract, 2,000 plans held to the laws of networks,
#             60 mutants (about an hour); ARGS=--help
# make install  the environment alone     make lock   choose new versions of the dependencies
# make audit  known vulnerabilities in the locked versions (asks a public database: needs a way out)

HOST ?= 127.0.0.1
PORT ?= 8000
PYTHON ?=

BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONUTF8 := 1
# Compiled code is kept: without, each worker and each server of the tests compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE
# Matrices are small here, and threads that share one only wait for each other; the image says so too.
export OPENBLAS_NUM_THREADS := 1

.PHONY: run test check bench fuzz install install-dev browser lock audit clean
.DEFAULT_GOAL := run

run: install
	@$(BIN)/python -m app serve --host $(HOST) --port $(PORT)

test: install-dev browser
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal $(ARGS)

check: install-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install-dev
	$(BIN)/python -m tests.bench $(ARGS)

fuzz: install-dev
	$(BIN)/python -m tests.fuzz $(ARGS)

audit: install-dev
	$(BIN)/pip-audit --strict --require-hashes --disable-pip --requirement requirements.lock

install: .venv/installed
install-dev: .venv/installed-dev

# The first Python of at least 3.11 that can make virtual environments.
$(BIN)/python:
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3.14 python3 python; do \
	    "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    echo "Making .venv with $$("$$python" --version)"; \
	    exec "$$python" -m venv .venv; \
	done; \
	echo "Railyard needs Python 3.11 or later with the venv module (Debian and Ubuntu: apt-get install python3-venv)." >&2; exit 1

.venv/installed: requirements.lock | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements.lock
	@touch $@

.venv/installed-dev: requirements-dev.lock .venv/installed
	@$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements-dev.lock
	@touch $@

# A Chromium for the browser tests: the one on this machine, else Playwright's own, else the distribution's, its shell
# without windows if it has one: pages cost that a third of the processor's time.
browser: install-dev
	@for name in chromium-headless-shell chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit; done; false \
	|| PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT=10000 timeout 300 $(BIN)/playwright install chromium >/dev/null 2>&1 \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q >/dev/null \
	     && for package in chromium-headless-shell chromium; do \
	          DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$package fonts-dejavu-core \
	              >/dev/null 2>&1 && exit; done; false; } \
	|| { echo "The browser tests need Chromium: install it (Debian and Ubuntu: apt-get install chromium) and run make test again." >&2; exit 1; }

LOCK = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --upgrade
lock: install
	$(BIN)/python -m pip install --quiet uv
	$(LOCK) -o requirements.lock
	$(LOCK) --group dev --constraint requirements.lock -o requirements-dev.lock

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .schemathesis test-results
