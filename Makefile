# `make demo` and `make test` are all that a newcomer needs; both make the environment first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help install demo test slow check format bench soak docs notebooks clean

help:
	@echo "make demo    train a looped transformer and draw what it has learned (into demo/)"
	@echo "make test    run the tests, with coverage"
	@echo "make slow    run the slow tests"
	@echo "make check   ruff and pyright"
	@echo "make format  let ruff format and mend"
	@echo "make bench   speeds as ratios against plain implementations"
	@echo "make soak    long campaigns of faults; some hours"
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
	$(BIN)/python -m benchmarks

# One line per campaign.
soak: $(STAMP)
	$(BIN)/python -m tests.soak flips 1000
	$(BIN)/python -m tests.soak kills 200

# Without the theme's advertisement of its successor.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(STAMP)
	$(BIN)/python examples/_make.py

clean:
	rm -rf .venv demo site build .pytest_cache .ruff_cache .hypothesis .coverage src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
