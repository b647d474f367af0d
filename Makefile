# What must hold before a commit (`make check`), and what CI runs besides (`make test`).
PYTHON ?= python

.PHONY: check lint test

check: lint
	$(PYTHON) -m pytest -n 2 -q -m "not slow"

lint:
	ruff format --check src tests
	ruff check src tests
	mypy
	lint-imports

test: lint
	$(PYTHON) -m pytest -n 2 -q
