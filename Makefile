# The commands of the README and of .ci/run. Needs python3, python3-venv, git and make.
PYTHON ?= python3
ARGS ?=
PIP = .venv/bin/python -m pip --disable-pip-version-check --quiet

.PHONY: chat test again hostile lint types package lab soak cuts bench clean

chat: .venv/run  ## set up and open a chat
	@.venv/bin/picoclaw chat $(ARGS)

test: .venv/dev  ## set up and run the tests; `make package` and `make hostile` have the others
	@.venv/bin/python -m pytest -n 3 --dist worksteal --ignore=tests/package --ignore=tests/hostile -m "not alone" $(ARGS)
	@.venv/bin/python -m pytest --ignore=tests/package --ignore=tests/hostile -m alone $(ARGS)

again: .venv/dev  ## the tests that have just failed beside others, by themselves, and those that always run so
	@.venv/bin/python -m pytest --last-failed --last-failed-no-failures=none --ignore=tests/package --ignore=tests/hostile
	@.venv/bin/python -m pytest --ignore=tests/package --ignore=tests/hostile -m alone

hostile: .venv/dev  ## how many attacks and honest requests of each class are tried, and stopped
	@.venv/bin/python tests/hostile/report.py $(ARGS)

lint: .venv/dev
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .

types: .venv/dev
	@.venv/bin/mypy

package: .venv/dev  ## sdist -> wheel -> clean environment -> run from /
	@.venv/bin/python -m pytest tests/package $(ARGS)

lab: .venv/dev  ## the hardware tests on real kernels in QEMU; skipped with a reason where that cannot run
	@tests/lab/run $(ARGS)

soak: .venv/dev  ## two minutes of a real daemon with everything at once; ARGS="--day" for a day in a quarter of an hour
	@.venv/bin/python tests/soak/soak.py $(ARGS)

cuts: .venv/dev  ## 2,000 power cuts, kills and failing disks through a day, and what was promised; ARGS="--count 10000" or "--all"
	@.venv/bin/python tests/bench/cuts.py $(ARGS)

bench: .venv/dev
	@.venv/bin/python tests/bench/cost.py $(ARGS)
	@.venv/bin/python tests/bench/prompts.py
	@.venv/bin/python tests/bench/reuse.py
	@.venv/bin/python tests/bench/clock.py --kills 50
	@.venv/bin/python tests/bench/embed.py
	@.venv/bin/python tests/bench/history.py
	@.venv/bin/python tests/bench/memory_first.py
	@.venv/bin/python tests/bench/memory_index.py
	@.venv/bin/python tests/bench/memory_search.py
	@.venv/bin/python tests/bench/server_shapes.py --check
	@.venv/bin/python tests/bench/stop.py
	@.venv/bin/python tests/bench/window.py

.venv/run: pyproject.toml
	@$(PYTHON) -m venv .venv
	@$(PIP) install --editable .
	@touch $@

.venv/dev: .venv/run
	@$(PIP) install --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache
