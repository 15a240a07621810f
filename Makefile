# make demo | test | bench | docs | jar | wheel | publish-local | clean. Each sets up what it needs: Java 17+, Python 3.11+ and sbt or Maven suffice.
#
#   make test PYTEST_ARGS="-k nulls -x"         passes options on to every pytest run
#   make test-connect                           one mode only: test-classic, test-local-cluster, test-connect
#   make test-unit test-jvm lint linkage        the other parts of make test, one by one
#   make test-spark SUITES="joins JoinSuite"    Spark's own tests with the plugin; all of them: SUITES=all
#   make help                                   all targets

SPARK := 4.3.0
OLDER_SPARKS := 4.1.4 4.2.0
PYTHON ?= python3
PYTEST_ARGS ?=
export PYTHON

VERSION := $(shell cat VERSION)
JAR := jvm/target/scala-2.13/spark-dynamic-filters_2.13-$(VERSION).jar
FAULTS_JAR := faults/target/scala-2.13/spark-dynamic-filters-faults_2.13-$(VERSION).jar
WHEEL := dist/spark_dynamic_filters-$(VERSION)-py3-none-any.whl
REPORTS := build/test-reports
# With it a Java process of the tests takes less than two thirds of the time to start.
SHARED_CLASSES := build/spark-$(SPARK).jsa

JVM_SOURCES := $(shell find jvm/src/main faults/src/main proto -type f 2>/dev/null) build.sbt VERSION LICENSE NOTICE $(wildcard project/*.sbt project/*.properties)
PYTHON_SOURCES := $(shell find python/spark_dynamic_filters -type f -not -path '*/__pycache__/*' -not -path '*/jars/*') \
  pyproject.toml VERSION README.md LICENSE NOTICE

# The stamp is written last: an interrupted set-up is done again.
VENV := .venv/.ready
OLDER_VENVS := $(OLDER_SPARKS:%=.venv-%/.ready)
PYTEST := .venv/bin/python -m pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo bench bench-topk bench-topk-useless bench-joins bench-user bench-cached bench-cost bench-planning bench-tables \
  bench-tables-delta bench-tables-iceberg bench-tpch bench-tpcds bench-peers bench-versions bench-coordinator bench-latency soak fuzz jar wheel venv clean test test-all check format \
  test-builds check-builds test-parts check-parts stubs texts lint lint-python lint-scala test-jvm test-unit test-classic test-classic-1 test-classic-2 \
  test-local-cluster test-connect test-docs test-docs-all docs docs-links chart publish-local release \
  check-classic check-local-cluster test-large test-tight-heap \
  test-browser linkage $(OLDER_SPARKS:%=linkage-%) linkage-$(SPARK) $(OLDER_SPARKS:%=test-core-%) test-delta test-iceberg test-avro test-spark

help:
	@echo "make demo    run a TopK on real Parquet input with and without filters"
	@echo "make check   what every change has to pass: lint, test-jvm, test-unit, a core of classic and local-cluster"
	@echo "make test    what CI runs: test-unit, test-jvm, lint, linkage, test-classic, test-local-cluster,"
	@echo "             test-connect, test-docs, $(OLDER_SPARKS:%=test-core-%)"
	@echo "make bench   run the benchmarks: bench-topk bench-joins bench-user, and the parts below, one by one"
	@echo "make bench-tables bench-cached bench-cost bench-planning bench-tpcds bench-tpch bench-peers [ARGS=...]   parts"
	@echo "make bench-coordinator   load the driver's part of the exchange with simulated executors"
	@echo "make bench-latency       how long a bound takes from one executor to another"
	@echo "make bench-versions OLD=a.jar NEW=b.jar   two versions of the jar side by side"
	@echo "make soak                a thousand queries from eight threads, heaps measured"
	@echo "make fuzz SECONDS=600 [SEED=n] [MODE=classic|local-cluster|connect] [KIND=joins|subqueries|replanned|computed|shared|failing] [LOSSES=1]"
	@echo "             random queries, each with and without filters; ends at a fault, with its seed and the smallest query"
	@echo "make test-large          tests that take minutes, apart from make test"
	@echo "make test-delta test-iceberg test-avro   tables of formats whose jars Maven fetches, on a Spark they fit"
	@echo "make test-spark [SUITES=all]   Spark's own compiled tests with the plugin loaded; without SUITES a part of minutes"
	@echo "make test-browser        Spark's UI in a headless Chromium, where one is installed"
	@echo "make test-tight-heap     a join of large broadcasts in a heap that is just enough without filters"
	@echo "make test-all            all of these: test with every case, of table formats too, test-spark, test-large,"
	@echo "             test-tight-heap, soak, fuzz"
	@echo "make docs    build the documentation site, build/docs/index.html; its links are checked"
	@echo "make docs-links          ask for each link of the site that leads elsewhere (needs a network)"
	@echo "make test-docs           the code blocks of README and the notebook; test-docs-all: of all pages"
	@echo "make chart               draw the chart of README from docs/bench"
	@echo "make publish-local           the Maven artifact, into ~/.m2, where --packages of Spark finds it"
	@echo "make release build all that is published, in dist/release (docs/release.md)"
	@echo "make jar     build $(JAR)"
	@echo "make wheel   build $(WHEEL)"
	@echo "make stubs   generate Python's part of proto/ anew, after a change there"
	@echo "make texts   write the tables of reasons and settings anew, after a change of them"
	@echo "make venv    set up .venv only"
	@echo "make format  format Python and Scala sources"
	@echo "make clean   remove everything that make has built, the virtual environments included"

demo: $(VENV) $(JAR)
	.venv/bin/python benchmarks/demo.py

# One after the other: each wants the machine for itself.
bench:
	@for part in topk topk-useless joins user cached cost planning tables tpch tpcds peers; do $(MAKE) --no-print-directory bench-$$part || exit 1; done

# ARGS goes to the benchmark, see --help.
ARGS ?=
BENCH := .venv/bin/python benchmarks/bench.py

bench-topk bench-topk-useless bench-joins bench-user bench-cached bench-cost bench-planning bench-peers: \
  bench-%: $(VENV) $(JAR)
	$(BENCH) $* --out docs/bench/$*.json $(ARGS)

# Delta and Iceberg beside Parquet, each on the newest Spark that it has a package for.
bench-tables: bench-tables-delta bench-tables-iceberg

bench-tables-delta: .venv-4.2.0/.ready
bench-tables-iceberg: .venv-4.1.4/.ready
bench-tables-delta bench-tables-iceberg: bench-tables-%: $(VENV) $(WHEEL)
	.venv-$(LINE_OF_$*)/bin/python $(INSTALL_WHEEL)
	TABLE_FORMAT=$* .venv-$(LINE_OF_$*)/bin/python benchmarks/bench.py tables --out docs/bench/tables-$*.json $(ARGS)

# SCALE=10 takes hours, in parts of so many minutes: a report of the same commit goes on, with ARGS=--keep any.
SCALE ?= 1
MINUTES ?= 55
bench-tpch bench-tpcds: bench-%: $(VENV) $(JAR) .venv-tpcds/.ready
	$(BENCH) $* --sizes $(SCALE) --minutes $(MINUTES) --out docs/bench/$*-$(SCALE).json $(ARGS)

.venv-tpcds/.ready: tools/requirements-tpcds.txt
	[ -x .venv-tpcds/bin/python ] || $(PYTHON) -m venv .venv-tpcds
	.venv-tpcds/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# The driver's part of the exchange under the load of a thousand simulated executors.
bench-coordinator:
	tools/sbt "jvm/Test/runMain org.dynamicfilters.exchange.CoordinatorLoad"

# How long a bound takes from one executor to another.
bench-latency: $(VENV) $(JAR)
	.venv/bin/python benchmarks/latency.py

# Joins and TopKs with two versions of the jar, by turns.
bench-versions: $(VENV)
	$(BENCH) versions --jars $(OLD) $(NEW) $(ARGS)

# A thousand queries from eight threads; live heaps must stay as they are.
soak: $(VENV) $(JAR)
	.venv/bin/python benchmarks/soak.py

# Random queries until the time is over; SEED and STATEMENT repeat one of them.
SECONDS ?= 600
MODE ?= classic
fuzz: $(VENV) $(JAR)
	.venv/bin/python integration-tests/fuzz.py --seconds $(SECONDS) --mode $(MODE) \
	  $(if $(SEED),--seed $(SEED)) $(if $(STATEMENT),--statement $(STATEMENT)) $(if $(KIND),--kind $(KIND)) $(if $(LOSSES),--losses)

# ---- set-up

venv: $(VENV)

# Installed in place, so that Python sources and the built jar are used as they are.
$(VENV): tools/setup-venv tools/requirements-dev.txt tools/requirements-test.txt pyproject.toml
	tools/setup-venv .venv $(SPARK) tools/requirements-dev.txt
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# The wheel is what these test: it has to bring all it needs.
.venv-%/.ready: tools/setup-venv tools/requirements-test.txt
	tools/setup-venv .venv-$* $* tools/requirements-test.txt
	touch $@

# ---- artifacts

jar: $(JAR)

# sbt leaves an unchanged jar alone, hence touch.
$(JAR): $(JVM_SOURCES)
	tools/sbt jvm/assembly faults/package
	touch $@

wheel: $(WHEEL)

$(WHEEL): $(JAR) $(PYTHON_SOURCES) | $(VENV)
	rm -rf build/lib build/bdist.* python/spark_dynamic_filters/jars
	mkdir -p python/spark_dynamic_filters/jars dist
	cp $(JAR) $(FAULTS_JAR) python/spark_dynamic_filters/jars/
	cp VERSION python/spark_dynamic_filters/
	.venv/bin/python -m pip wheel . --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist
	rm -rf python/spark_dynamic_filters/jars python/spark_dynamic_filters/VERSION
	touch $@

# Generated Python is committed: users need neither protoc nor this version of it, whose output runs with protobuf 4.25 to 7.
STUBS_PROTOC := grpcio-tools==1.62.3
STUBS := python/spark_dynamic_filters/_proto

stubs:
	[ -x build/stubs-venv/bin/python ] || $(PYTHON) -m venv build/stubs-venv
	build/stubs-venv/bin/python -m pip install --quiet --disable-pip-version-check "$(STUBS_PROTOC)" "setuptools<81"
	build/stubs-venv/bin/python -m grpc_tools.protoc -Iproto --python_out=$(STUBS) --pyi_out=$(STUBS) \
	  proto/dynamic_filter_commands.proto

# What pages and the Python package repeat of the code's data: reasons, settings. A test compares.
texts:
	WRITE_TEXTS=1 tools/sbt "jvm/testOnly *GeneratedTextSuite"

# With POM and sources, into the Maven repository of this user, or the one that MAVEN_REPOSITORY names.
publish-local:
	MAVEN_REPOSITORY="$(MAVEN_REPOSITORY)" tools/sbt jvm/publish

# Wheel, jar, POM, sources, javadoc, checksums, bill of materials and list of contents, in dist/release.
release: $(WHEEL)
	rm -rf build/maven
	MAVEN_REPOSITORY=build/maven tools/sbt jvm/publish
	.venv/bin/python tools/release.py --wheel $(WHEEL) --maven build/maven --out dist/release

# ---- documentation

DOCS_VENV := .venv-docs
DOCS := $(DOCS_VENV)/bin/python -m sphinx -W --keep-going -q

$(DOCS_VENV)/.ready: tools/requirements-docs.txt
	[ -x $(DOCS_VENV)/bin/python ] || $(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tools/requirements-docs.txt
	touch $@

# A link that leads nowhere in these pages is an error.
docs: $(DOCS_VENV)/.ready
	$(DOCS) -b html docs build/docs
	@echo "build/docs/index.html"

docs-links: $(DOCS_VENV)/.ready
	$(DOCS) -b linkcheck docs build/docs-links

chart: $(VENV)
	.venv/bin/python benchmarks/overview.py

# ---- tests

# Parts that do not disturb each other run side by side: Spark's small queries keep less than a core busy each.
SIDE_BY_SIDE := -j3 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

# Run every part, also after one has failed, and end with the sum of all.
test check:
	rm -rf $(REPORTS) jvm/target/test-reports
	mkdir -p $(REPORTS)
	@start=$$(date +%s); status=0; \
	  $(MAKE) --no-print-directory --keep-going $(SIDE_BY_SIDE) $@-builds || status=$$?; \
	  $(MAKE) --no-print-directory --keep-going $(SIDE_BY_SIDE) $@-parts || status=$$?; \
	  $(PYTHON) tools/test_summary.py $$status $$start $(REPORTS) jvm/target/test-reports

# What the parts use is there before they start.
test-builds: wheel $(SHARED_CLASSES) $(OLDER_VENVS) lint-python
check-builds: wheel $(SHARED_CLASSES) lint-python

$(SHARED_CLASSES): tools/share_classes.py $(VENV)
	.venv/bin/python $< $@

# The longest ones first.
test-parts: test-classic test-jvm $(OLDER_SPARKS:%=test-core-%) test-local-cluster test-connect test-docs test-unit linkage

check-parts: check-classic test-jvm check-local-cluster test-unit

lint: lint-python lint-scala

lint-python: $(VENV)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy --cache-dir build/mypy

lint-scala:
	tools/sbt scalafmtCheckAll

format: $(VENV)
	.venv/bin/ruff check --fix-only --quiet .
	.venv/bin/ruff format --quiet .
	tools/sbt scalafmtAll

# Without the jar, which the other parts of make test read meanwhile.
test-jvm:
	tools/sbt scalafmtCheckAll test

linkage: linkage-$(SPARK) $(OLDER_SPARKS:%=linkage-%)

linkage-$(SPARK): $(JAR) $(VENV)
	java tools/LinkCheck.java $(JAR) .venv/lib/python*/site-packages/pyspark/jars

$(OLDER_SPARKS:%=linkage-%): linkage-%: $(JAR) .venv-%/.ready
	java tools/LinkCheck.java $(JAR) .venv-$*/lib/python*/site-packages/pyspark/jars

test-unit: $(VENV) $(JAR)
	$(PYTEST) python/tests --junit-xml=$(REPORTS)/unit.xml $(PYTEST_ARGS)

# The longest part of all, in two halves.
test-classic: test-classic-1 test-classic-2

test-classic-1 test-classic-2: test-classic-%: $(VENV) $(JAR)
	$(PYTEST) integration-tests --spark-mode=classic --part=$*/2 --junit-xml=$(REPORTS)/classic-$*.xml $(PYTEST_ARGS)

test-local-cluster test-connect: test-%: $(VENV) $(JAR)
	$(PYTEST) integration-tests --spark-mode=$* --junit-xml=$(REPORTS)/$*.xml $(PYTEST_ARGS)

# What pages say is run, with nothing but the wheel.
test-docs: $(VENV) $(WHEEL)
	$(PYTEST) docs-tests -m "not large" --junit-xml=$(REPORTS)/docs.xml $(PYTEST_ARGS)

test-docs-all: $(VENV) $(WHEEL)
	$(PYTEST) docs-tests -m large --junit-xml=$(REPORTS)/docs-all.xml $(PYTEST_ARGS)

check-classic check-local-cluster: check-%: $(VENV) $(JAR)
	$(PYTEST) integration-tests --spark-mode=$* -m core --junit-xml=$(REPORTS)/$*.xml $(PYTEST_ARGS)

# Not a part of make test: 64 MiB from executor to executor take minutes, and so do many applications of tests'
# own.
test-large: $(VENV) $(JAR)
	$(PYTEST) integration-tests -m large --spark-mode=local-cluster --junit-xml=$(REPORTS)/large.xml $(PYTEST_ARGS)

# Not a part of make test: pages as a browser draws them. Skipped, with the reason, where there is no Chromium.
test-browser: $(VENV) $(JAR)
	$(PYTEST) integration-tests -m browser --spark-mode=classic --junit-xml=$(REPORTS)/browser.xml $(PYTEST_ARGS)

# Not a part of make test: by turns with filters off and on, each from a clean heap.
test-tight-heap: $(VENV) $(JAR)
	.venv/bin/python benchmarks/tight_heap.py

# Spark's own compiled tests, which Maven Central has for this version. Groups and suites: tools/spark-tests/suites.toml.
SPARK_WITH_TESTS := 4.2.0
SUITES ?= core
test-spark: $(JAR)
	$(PYTHON) tools/test_spark.py --jar $(JAR) --spark $(SPARK_WITH_TESTS) $(SUITES)

# Runs every part, also after one has failed.
test-all:
	@EVERY_CASE=1 $(MAKE) --no-print-directory --keep-going test test-spark test-docs-all docs test-delta test-iceberg test-avro test-large test-browser \
	  test-tight-heap soak fuzz

# An older line runs the core of one table format, too: an application has one of them.
LINE_OF_iceberg := 4.1.4
LINE_OF_avro := 4.1.4
LINE_OF_delta := 4.2.0
FORMAT_OF_4.1.4 := iceberg
FORMAT_OF_4.2.0 := delta
INSTALL_WHEEL := -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall $(WHEEL)

$(OLDER_SPARKS:%=test-core-%): test-core-%: .venv-%/.ready $(WHEEL)
	.venv-$*/bin/python $(INSTALL_WHEEL)
	TABLE_FORMAT=$(FORMAT_OF_$*) .venv-$*/bin/python -m pytest integration-tests -m core \
	  --junit-xml=$(REPORTS)/core-$*.xml $(PYTEST_ARGS)

# All tests of a table format, whose jars Maven fetches, on the newest line that it has a package for.
test-iceberg test-avro: .venv-4.1.4/.ready
test-delta: .venv-4.2.0/.ready
test-iceberg test-avro test-delta: test-%: $(WHEEL)
	.venv-$(LINE_OF_$*)/bin/python $(INSTALL_WHEEL)
	TABLE_FORMAT=$* .venv-$(LINE_OF_$*)/bin/python -m pytest integration-tests \
	  --junit-xml=$(REPORTS)/$*.xml $(PYTEST_ARGS)

clean:
	rm -rf .venv .venv-* build dist .data .pytest_cache .ruff_cache jvm/target faults/target target project/target project/project
	rm -rf spark-warehouse artifacts metastore_db derby.log python/*.egg-info
	rm -rf python/spark_dynamic_filters/jars python/spark_dynamic_filters/VERSION
	find python integration-tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
