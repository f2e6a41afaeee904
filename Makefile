# `make demo` and `make test` are all that a newcomer needs; both make the environment first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help install demo test slow check format bench soak lock audit docs notebooks clean

help:
	@echo "make demo    train a looped transformer and draw what it has learned (into demo/)"
	@echo "make test    run the tests, with coverage"
	@echo "make slow    run the slow tests"
	@echo "make check   ruff and pyright"
	@echo "make format  let ruff format and mend"
	@echo "make bench   speeds as ratios against plain implementations; fails where a target is missed"
	@echo "make soak    long campaigns: fuzz (FUZZ=100: fewer), flips, kills, memory, Ray; some hours"
	@echo "make lock    write requirements.lock, the tested environment with hashes"
	@echo "make audit   compare requirements.lock with known vulnerabilities (asks the network)"
	@echo "make docs    build the documentation's site (site/index.html); warnings are errors"
	@echo "make notebooks   run the tutorials of examples/, and write their notebooks"
	@echo "make clean   remove the environment and caches"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/innerloop demo --output demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term:skip-covered --cov-fail-under=90

slow: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m slow

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m benchmarks --json bench.json

lock: $(STAMP)
	$(BIN)/python tools/lock.py

# By hand, before a release.
audit:
	$(PYTHON) tools/audit.py

FUZZ ?= 5000
# One line per campaign.
soak: $(STAMP)
	$(BIN)/python -m tests.fuzz --command-lines $(FUZZ) --configurations $(FUZZ)
	$(BIN)/python -m tests.soak flips 1000
	$(BIN)/python -m tests.soak kills 200
	$(BIN)/python -m tests.training.soak 20000
	@if $(BIN)/python -c 'import ray' 2> /dev/null; then \
		$(BIN)/python -m pytest -q -m slow tests/engine/test_cluster.py; \
	else echo "sweeps on a Ray cluster were not tried: pip install 'innerloop[ray]'"; fi

# Without the theme's advertisement of its successor.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(STAMP)
	$(BIN)/python examples/_make.py

clean:
	rm -rf .venv demo site build .pytest_cache .ruff_cache .hypothesis .coverage src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
