# Everything works on a fresh clone: whatever needs the environment makes it first.
#
#   make test      set-up, checks, unit tests, histories, smoke tests on real brokers: ten minutes
#   make demo      a real cluster, a real reassignment, the proof that nothing was lost
#   make cluster   a real cluster to try the commands on
#   make help      the rest

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first interpreter that runs and is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
READY := $(VENV)/.ready
SPARK := $(VENV)/.spark
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --disable-pip-version-check
CAST := build/cast
SEED ?=
MINUTES ?= 30
COUNT ?=
SIM := PYTHONHASHSEED=0 $(BIN)/python -m tests.sim.campaigns
SIM_DELEGATED := PYTHONHASHSEED=0 $(BIN)/python -m tests.sim.delegated_campaigns
SIM_ENDPOINT := PYTHONHASHSEED=0 $(BIN)/python -m tests.sim.endpoint_campaigns
# Tests in several processes: those of a file stay in one, as they share what is expensive.
UNIT := PYTHONHASHSEED=0 $(BIN)/python -m pytest tests --numprocesses auto
ON_BROKERS := $(BIN)/python -m pytest integration --numprocesses 2 --dist loadfile --timeout 300
TIMES := build/times
# Containers start slowly on a busy machine: a long limit. The log says what was built, and when.
ON_CONTAINERS := --cluster containers --timeout 1200 --durations 8 \
	-o log_cli=true -o log_cli_level=INFO -o log_cli_format='%(asctime)s %(message)s'
CODE := controller tests integration benchmarks docs/generate

.PHONY: diagram recovery reference picture cast help setup check unit exhaustive first-histories test test-all integration kafka-tests containers smoke acceptance sim explore mutants histories oracle chaos forecasts bench bench-check bench-pipeline demo cluster deb clean interpreter jars

help: ## what there is to make
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## a virtual environment with the package and the tools to check it; Spark comes with the first target that uses it

# Each stage is installed by the first target that needs it: Spark is larger than all the rest.
# What is imported is compiled then: it is less than all that pip would compile.
$(PACKAGE): pyproject.toml constraints.txt | interpreter
	@echo "--- installing the package into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-compile --editable .
	@touch $@

$(READY): $(PACKAGE)
	@echo "--- installing the tools that check it"
	$(INSTALL) --editable '.[dev,zookeeper-sasl]'
	@touch $@

$(SPARK): $(READY)
	@echo "--- installing Spark for the pipeline"
	$(INSTALL) --editable '.[pipeline]'
	@touch $@

interpreter:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed: PYTHON=/path/to/python3 make setup" >&2; exit 1; }

# They need nothing that is installed, so that the package is installed meanwhile.
jars: interpreter
	@$(PYTHON) -m integration.rigs.kafka_jars

check: $(READY) ## style, format, types, and who may import whom
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy --strict $(CODE)
	$(BIN)/lint-imports --no-cache

unit: $(SPARK) ## the fast tests: no network, no sleeping
	$(UNIT) -m 'not exhaustive'

exhaustive: $(SPARK) ## more seeds and cases of the fast tests
	$(UNIT) -m exhaustive

first-histories: $(READY) ## the first histories of each kind; COUNT=n
	PYTHONHASHSEED=0 $(BIN)/python -m tests.sim.first_histories $(if $(COUNT),--count $(COUNT))

smoke: $(READY) ## a dozen tests on real brokers that stand for the rest
	$(ON_BROKERS) -m smoke

acceptance: $(SPARK) ## more tests on real brokers, which continuous integration runs after make test
	$(ON_BROKERS) -m acceptance

integration: $(SPARK) ## every test on real brokers; CLUSTER=containers: those that run on the compose file's
	$(BIN)/python -m pytest integration --timeout 600 $(if $(filter containers,$(CLUSTER)),$(ON_CONTAINERS))

kafka-tests: $(READY) ## Kafka's own tests with the daemon as the controller; KAFKA=3.9.1, MODES=baseline,daemon,idle, TESTS="CLASS#METHOD ..."
	$(BIN)/python -m integration.kafkatests $(if $(KAFKA),--kafka $(KAFKA)) $(if $(MODES),--modes $(MODES)) $(TESTS)

containers: $(READY) ## what is deployed, on real containers: the image, the compose file, the systemd unit
	$(BIN)/python -m pytest integration/containers $(ON_CONTAINERS)

# The checks run beside the unit tests, and say something when those have ended.
test: $(READY) ## what has to pass before a change goes in: check, unit, first-histories, smoke
	@mkdir -p build; : > $(TIMES); \
	trap 'echo "took $$(paste -s -d, $(TIMES) | sed "s/,/, /g"), $$SECONDS s in all"' EXIT; \
	timed() { local began=$$SECONDS; $(MAKE) --no-print-directory $$1 || return; \
		echo "$$1 $$((SECONDS - began)) s" >> $(TIMES); }; \
	timed check > build/check.log 2>&1 & checked=$$!; passed=yes; \
	timed unit || passed=no; \
	wait $$checked || { cat build/check.log; passed=no; }; \
	[ $$passed = yes ]; \
	timed first-histories; timed smoke

test-all: setup check unit exhaustive histories integration chaos ## with every test on real brokers, and half an hour of random faults

histories: $(READY) ## ten thousand seeded histories, a thousand of the delegated engine, and two thousand with brokers that send requests, on every processor
	$(SIM) --count 10000
	$(SIM_DELEGATED) --count 1000
	$(SIM_ENDPOINT) --count 2000

sim: $(READY) ## seeded histories of faults: SEED=n repeats one, COUNT=n plays many from SEED on
	$(SIM) $(if $(SEED),--seed $(SEED)) --count $(or $(COUNT),$(if $(SEED),1,300))

mutants: $(READY) ## change the decisions at random and see that tests notice: COUNT=n, SEED=n, MINUTES=n, UNDER=file
	PYTHONHASHSEED=0 $(BIN)/python -m tests.mutants $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(if $(filter command line environment,$(origin MINUTES)),--minutes $(MINUTES)) $(UNDER)

explore: $(READY) ## every interleaving of small clusters, about half an hour on two cores; NAMES="parts of names", EXPLORE_S=n for each
	PYTHONHASHSEED=0 $(BIN)/python -m tests.explore $(NAMES) --seconds $(or $(EXPLORE_S),85) --jobs 2

oracle: $(READY) ## compare what seeded histories write and send with what it was; WRITE=1 keeps the present
	PYTHONHASHSEED=0 $(BIN)/python -m tests.sim.oracle $(if $(WRITE),--write)

chaos: $(READY) ## a random campaign of faults on real brokers; MINUTES=n, SEED=n, ENGINE=delegated, KAFKA=3.9.1, PROTOCOL=3.9, DISK_MB=n
	$(BIN)/python -m integration.chaos --minutes $(MINUTES) $(if $(ENGINE),--engine $(ENGINE)) $(if $(SEED),--seed $(SEED)) $(if $(KAFKA),--kafka $(KAFKA)) $(if $(PROTOCOL),--protocol $(PROTOCOL)) $(if $(DISK_MB),--disk-mb $(DISK_MB))

forecasts: $(READY) ## how many previews forecast the time of their plans on real brokers; COUNT=n, SEED=n
	$(BIN)/python -m integration.forecasts $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

bench: $(READY) ## measure; FULL=1 with more rounds and the largest shapes
	$(BIN)/python -m benchmarks $(if $(FULL),--full)

bench-check: $(READY) ## fail if a partition takes more processor time than it did: two minutes
	$(BIN)/python -m benchmarks.loops --check

bench-pipeline: $(SPARK) ## measure plans of whole clusters; SHAPES=SMJ, SEEDS=1,2, MEMORY=8g, RATED=1, OTHERS=1
	$(BIN)/python -m benchmarks.pipeline $(if $(SHAPES),--shapes $(SHAPES)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MEMORY),--memory $(MEMORY)) $(if $(RATED),--rated) $(if $(OTHERS),--others)

diagram: $(READY) ## docs/reference/phases.md, drawn from the transition table
	$(BIN)/python -m docs.generate.phases > docs/reference/phases.md

recovery: $(READY) ## docs/reference/recovery.md, written from what the proof of recovery tries
	$(BIN)/python -m tests.sim.recovery_table > docs/reference/recovery.md

reference: $(READY) ## the documents generated from the code: settings, verbs, metrics, journal, sample configuration
	$(BIN)/python -m docs.generate.settings > docs/reference/configuration.md
	$(BIN)/python -m docs.generate.verbs > docs/reference/cli.md
	$(BIN)/python -m docs.generate.metrics > docs/reference/metrics.md
	$(BIN)/python -m docs.generate.journal > docs/reference/journal.md
	$(BIN)/python -m docs.generate.sample > deploy/reassigner.toml
	$(BIN)/python -m tests.deploy.prometheusrule

picture: $(READY) ## docs/images, of real moves in headless Chromium
	$(BIN)/python -m integration.shown_moves docs/images

cast: $(PACKAGE) $(CAST)/.ready ## docs/images/demo.svg, a recording of `make demo`
	$(CAST)/bin/termtosvg docs/images/demo.svg --command '$(BIN)/python -m integration.demo' \
		--screen-geometry 100x36 --min-frame-duration 250 --max-frame-duration 2500 \
		--loop-delay 15000 --template window_frame

# Of its own: the recorder is not maintained and needs an old setuptools.
$(CAST)/.ready:
	$(PYTHON) -m venv $(CAST)
	$(CAST)/bin/python -m pip install --quiet --disable-pip-version-check termtosvg==1.1.0 'setuptools<81'
	@touch $@

demo: ## a real cluster, a real reassignment, and the proof
	@$(MAKE) --no-print-directory --jobs 2 $(PACKAGE) jars
	$(BIN)/python -m integration.demo

cluster: ## a real cluster without a daemon, to try the commands on, until Ctrl-C; PROTOCOL=3.9
	@$(MAKE) --no-print-directory --jobs 2 $(PACKAGE) jars
	$(BIN)/python -m integration.playground $(if $(PROTOCOL),--protocol $(PROTOCOL)) $(if $(DISK_MB),--disk-mb $(DISK_MB))

deb: $(PACKAGE) ## a Debian package for the release that has this Python: build/deb/*.deb
	deploy/debian/build $(BIN)/python

clean: ## remove what was made here
	rm -rf $(VENV) .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build *.egg-info
	find $(CODE) -type d -name __pycache__ -prune -exec rm -rf {} +
