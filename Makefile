# `make demo` and `make test` need Python 3.11+, make and pip; they make a virtual environment under the checkout.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
export PIP_NO_INPUT := 1
unexport PYTHONDONTWRITEBYTECODE   # else each of the suite's processes would compile all that it imports again

.PHONY: site size demo test test-all lean lint bench bench-gpu coverage mutation papers clean

demo: $(VENV)/.installed
	$(BIN)/pacdp demo

# at most three cases of every test function, evenly spread, and all of those whose cases are the point
SUITE := -n 2 --dist worksteal -p tests.typed
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(SUITE) -m "not slow"

# every case, the slow ones and the tables of faults; renews docs/suite.md and docs/faults.md
test-all: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(SUITE) --cases 0 -p tests.suite_page --page docs/suite.md -m ""
	$(BIN)/python -m tests.fault_table

# `bounds` alone, in an environment without torch
lean:
	$(PYTHON) -m venv $(VENV)-lean
	$(VENV)-lean/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt numpy scipy numba
	$(VENV)-lean/bin/python -c "import bounds; print(float(bounds.maurer(risk=0.02, kl_nats=500.0, n=60_000, failure_prob=0.05)))"
	$(VENV)-lean/bin/python -c "import importlib.util; assert importlib.util.find_spec('torch') is None"

# the table of docs/coverage.md: how often every bound fails where the truth is known
coverage: $(VENV)/.installed-dev
	$(BIN)/python -m tests.coverage.table

# whether the tests of `bounds` notice a sample of small changes of it; WRITE=--write renews docs/mutation.md
mutation: $(VENV)/.installed-dev
	nice -n 10 $(BIN)/python -m tests.mutation $(WRITE)

# every study in seconds, on small data and two workers; fails if a run fails, and touches nothing that is kept
papers: $(VENV)/.installed
	rm -rf runs/papers
	$(BIN)/pacdp experiment all --smoke --workers 2 --runs runs/papers/runs --out runs/papers/results

# the documentation with executed examples, into build/site; fails on a warning, an example that does not run, a request to the network
site: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python -m site_tools.check build/site

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

# timings against floors and peers, into benchmarks/results/
bench: $(VENV)/.installed-dev
	$(PIP) --editable '.[bench]'
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.chains
	$(BIN)/python -m benchmarks.chains_clipped
	$(BIN)/python -m benchmarks.accounting
	$(BIN)/python -m benchmarks.private_steps
	$(BIN)/python -m benchmarks.monte_carlo
	$(BIN)/python -m benchmarks.memory

# everything worth timing on a GPU, in less than eight minutes; without one a dry run on the CPU
bench-gpu: $(VENV)/.installed-dev
	$(PIP) --editable '.[bench]'
	$(BIN)/python -m benchmarks.gpu

# torch first, from its pin: whatever is installed after it then keeps that build
define ENVIRONMENT
$(PYTHON) -m venv $(VENV)
$(PIP) torch
endef

$(VENV)/.installed: pyproject.toml constraints.txt
	$(ENVIRONMENT)
	$(PIP) --editable .
	touch $@

# what tests, lint and documentation need, resolved at once
$(VENV)/.installed-dev: pyproject.toml constraints.txt
	$(ENVIRONMENT)
	$(PIP) --editable '.[dev,docs]'
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) $(VENV)-lean build dist

# lines by package, escapes from the formatter, longest files; files touched by the last commit that added a bound, a sampler, a data set
size:
	@for d in bounds pacdp pacdp/certify pacdp/verify experiments benchmarks tests; do \
	  files=$$(git ls-files $$d | grep '\.py$$'); \
	  printf '%-14s %5d files %7d lines %5d formatter escapes\n' $$d $$(echo "$$files" | wc -l) $$(cat $$files | wc -l) \
	    $$(cat $$files | grep -c 'fmt: \(skip\|off\)' || true); \
	done
	@git ls-files bounds pacdp experiments | grep '\.py$$' | xargs wc -l | grep -v total | sort -n | \
	  awk '{a[NR]=$$1; f[NR]=$$2} END {print "median file " a[int((NR+1)/2)] " lines; longest " a[NR] " (" f[NR] ")"}'
