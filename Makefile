# Checks before a commit (`make check`: lint and quick tests) and in CI (`make test`).
PYTHON ?= python
PYTEST = $(PYTHON) -m pytest -n 2 --dist worksteal -q
# Here every part and every search runs with the checks of tensor shapes, which take more than half
# of the time of a search. CI runs the other tests without them.
SHAPES = tests/contract tests/decoding tests/parity
# CI lists where its time goes.
SLOWEST = --durations 25 --durations-min 10
# `make coverage COVERED="not slow and not long"` measures the quick tests only.
COVERED = not long

.PHONY: check lint test tests proof coverage docs dist sbom update

check: lint
	$(PYTEST) --hypothesis-profile quick -m "not slow and not long"

lint:
	ruff format --check src tests bench docs_build docs/notebooks
	ruff check src tests bench docs_build docs/notebooks
	mypy
	lint-imports

test: lint tests

tests:
	status=0; \
	$(PYTEST) -m "not long" $(SLOWEST) $(SHAPES) || status=1; \
	DRAGOMAN_SHAPES=off $(PYTEST) -m "not long" $(SLOWEST) $(addprefix --ignore=,$(SHAPES)) || status=1; \
	exit $$status

# Proofs that take minutes each: more random models and examples, longer texts, all combinations of
# parts.
proof:
	$(PYTEST) --hypothesis-profile proof -m long

# Which lines and branches the tests of CI run, also in processes that they start. One test counts
# the bytes that a process writes, and coverage writes its own.
coverage:
	DRAGOMAN_SHAPES=off $(PYTHON) -m coverage run -m pytest -n 2 --dist worksteal -q -m "$(COVERED)" \
		--deselect tests/planning/test_measure.py::test_bytes_memory_and_time_of_a_process_are_measured
	$(PYTHON) -m coverage report --skip-covered --sort=cover

# The documentation site, in site/.
docs:
	PYTHONPATH=. zensical build --clean --strict

# Wheel and sdist, in dist/. hatchling gives every file the same date and rights, so two builds of
# one commit with one version of hatchling have the same bytes.
dist:
	$(PYTHON) -m build --no-isolation --outdir dist

# What a user of the extra `all` installs: a bill of materials (CycloneDX), in dist/.
sbom:
	.ci/sbom

# Refresh the versions that CI installs.
update:
	.ci/update
