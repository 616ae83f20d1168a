# SPDX-License-Identifier: Apache-2.0
# Every target does the set-up that it needs; a second call is quick (.stamps/).

# A Python of 3.11 or later; name another one with `make PYTHON=/path/to/python3`.
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
	$(shell $(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)))
# editable: changes of Python code need no installation. CI tests what users install, with
# the versions of the lock files.
INSTALL ?= $(if $(CI),plain,editable)
# Executions of each fuzzer in `make check-full`: seventeen million in all, fifteen of them
# of what reads responses (pdu, content), patterns and templates (template, ldif and PARSERS,
# which is the one in Python); about seven minutes on two cores.
FUZZ ?= pdu:3000000 content:6000000 template:4000000 feed:500000 canned:500000 ldif:1500000 buckets:1000000
FUZZ_PARSERS ?= 1000000
# Tests of faults that `make check-full` runs at a time: they wait more than they work.
CHAOS ?= 6

comma := ,
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
PACKAGES := $(patsubst %/__init__.py,%,$(wildcard */__init__.py))
C_SOURCES := $(shell find agent/csrc benchmarks tests -name '*.[ch]')
ENGINE_INPUTS := pyproject.toml __init__.py $(shell find agent/csrc -name '*.[ch]' -o -name CMakeLists.txt)
PLAIN_INPUTS := $(shell find $(PACKAGES) -type f -not -name '*.pyc')
INPUTS := $(ENGINE_INPUTS) $(if $(filter plain,$(INSTALL)),$(PLAIN_INPUTS))

# $(call c_build,NAME,OPTIONS): the engine and its C tests in build/c/NAME
c_build = cmake -S agent/csrc -B build/c/$(1) -DENGINE_TESTS=ON $(2) >/dev/null && \
	MAKEFLAGS= cmake --build build/c/$(1) -j $$(nproc) >/dev/null
c_tests = $(call c_build,$(1),$(2)) && \
	ctest --test-dir build/c/$(1) --output-on-failure --no-tests=error

# Of images; a podman of this host, if nothing else is said.
BUILDER ?= podman
REGISTRY ?= localhost
BASE ?= docker.io/library/debian:bookworm-slim
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' __init__.py)

# One lock for all versions of Python, with hashes: --universal.
LOCK = $(BIN)/uv pip compile -q --universal --generate-hashes --upgrade \
	--python-version 3.11 --custom-compile-command "make lock" -o

# Tests start Python hundreds of times: it is to find its modules compiled.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

# Two targets at a time: mypy has one thread.
MAKEFLAGS += -j2

.DELETE_ON_ERROR:
.PHONY: help setup demo test check types style check-full ctest mutate bench bench-fleet proto man pages \
	site format lock wheel bundle image clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /    make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(STAMPS)/ldapslam-$(INSTALL) ## system packages, .venv, the engine's build
	@echo "ready: $(BIN)/ldapslam --help"

demo: setup ## a real measurement of a temporary slapd, and its report
	.ci/system-packages $(PYTHON) demo
	$(BIN)/ldapslam demo

# Three at a time, by file: most of the time of most tests is waiting. In their order, so
# that the short ones of tests/unit come last, when one after the other has no more to do.
test: check ctest site ## the checkers and the tests; what CI runs
	.ci/system-packages $(PYTHON) test
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not accuracy and not long"

check: types style ## formatting, lint, types, architecture, generated code

types: setup $(STAMPS)/dev
	$(BIN)/mypy $(PACKAGES:%=-p ldapslam.%)
	$(BIN)/mypy tests benchmarks docs

style: setup $(STAMPS)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror $(C_SOURCES)
	$(BIN)/python proto/generate.py --check
	$(BIN)/python docs/generate.py --check
	$(BIN)/pytest -q tests/unit/test_surface.py

ctest: $(STAMPS)/system ## the tests of the engine in C
	$(call c_tests,plain)

# The runs of their own: what measures time must not share the machine with the rest.
check-full: test ## also sanitizers, fuzzing, accuracy, leaks, faults
	.ci/system-packages $(PYTHON) full
	$(call c_tests,address,-DENGINE_WERROR=ON -DENGINE_SANITIZE=address$(comma)undefined)
	CC=clang $(call c_tests,thread,-DENGINE_WERROR=ON -DENGINE_SANITIZE=thread)
	$(call c_build,module,-DSKBUILD=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
	    -DENGINE_SANITIZE=address$(comma)undefined)
	LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
	    ASAN_OPTIONS=detect_leaks=0 \
	    $(BIN)/python tests/engine/sanitized.py build/c/module/_engine.abi3.so
	CC=clang $(call c_build,fuzz,-DENGINE_FUZZ=ON -DENGINE_SANITIZE=address$(comma)undefined)
	for target in $(FUZZ); do \
	    build/c/fuzz/test/fuzz_$${target%:*} -runs=$${target#*:} -max_len=4096 \
	        -artifact_prefix=build/c/fuzz/ -print_final_stats=1 || exit 1; \
	done
	$(BIN)/python tests/engine/fuzz_parsers.py --runs $(FUZZ_PARSERS)
	$(MAKE) bundle
	$(BIN)/pytest --all-draws -m accuracy
	$(BIN)/pytest --all-draws -n 2 --dist loadfile -m "(long or simulation) and not accuracy and not chaos"
	$(BIN)/pytest -n $(CHAOS) --dist worksteal -m chaos

mutate: setup $(STAMPS)/dev ## small bugs, one at a time: do the tests notice?
	$(BIN)/python tests/mutation/run.py

bench: setup ## what the engine costs, against a floor client and other tools
	.ci/system-packages $(PYTHON) bench
	$(BIN)/python benchmarks/engine_cost.py --json build/bench.json
	$(BIN)/python benchmarks/generate.py

bench-fleet: setup $(STAMPS)/dev ## what a fleet costs its coordinator, up to 1,000 agents
	$(BIN)/python benchmarks/fleet.py

format: setup $(STAMPS)/dev ## rewrite Python and C in the house's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only .
	$(BIN)/clang-format -i $(C_SOURCES)

pages: setup $(STAMPS)/dev ## write the pages of docs/reference that the code has
	$(BIN)/python docs/generate.py

site: setup $(STAMPS)/dev ## the documents as a site, build/site; fails on a dead link
	rm -rf build/site
	$(BIN)/sphinx-build -q -W --keep-going -d build/site.cache docs build/site

proto: setup $(STAMPS)/dev ## generate the protobuf modules
	$(BIN)/python proto/generate.py

man: setup ## write the manual pages to build/man
	$(BIN)/python docs/manual.py

lock: $(STAMPS)/release ## pin the newest versions of all dependencies, with hashes
	$(LOCK) requirements.lock pyproject.toml
	$(LOCK) requirements-dev.lock pyproject.toml -c requirements.lock \
	    --group dev --group release

# Built once more, a release is the same, byte for byte.
wheel bundle: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null)

# python-ldap too: its project has no wheels. Both bring libldap with them.
wheel: $(STAMPS)/release man ## dist/: the sdist, and wheels for hosts without a compiler
	rm -rf dist build/wheels
	$(BIN)/python -m build -q --no-isolation -o build/wheels .
	$(BIN)/python -m pip wheel -q --no-cache-dir --no-deps -w build/wheels \
	    "$$(sed -n 's/^\(python-ldap==[^ ]*\).*/\1/p' requirements.lock)"
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair -w dist build/wheels/*.whl
	.ci/add-licences $(BIN)/python dist/*.whl
	mv build/wheels/*.tar.gz dist

bundle: wheel ## dist/: what installs ldapslam without a network and a compiler
	rm -rf build/release && $(PYTHON) -m venv build/release
	build/release/bin/python -m pip install -q --no-deps dist/*.whl
	build/release/bin/python -m pip install -q --only-binary :all: --require-hashes \
	    -r requirements.lock
	build/release/bin/python -m pip check
	build/release/bin/ldapslam fleet bundle -o dist

image: bundle ## the images of coordinator and agent; BUILDER=, REGISTRY=, BASE=
	for target in agent coordinator; do \
	    $(BUILDER) build -f Containerfile --target $$target \
	        --build-arg BASE=$(BASE) --build-arg VERSION=$(VERSION) \
	        -t $(REGISTRY)/ldapslam-$$target:$(VERSION) . || exit 1; \
	done

# -- set-up ---------------------------------------------------------------------------

$(STAMPS)/system: .ci/system-packages
	@test -n "$(PYTHON)" || { \
	    echo "ldapslam needs Python 3.11 or later; found: $$(python3 --version 2>&1)"; \
	    echo "hint: apt-get install python3 on Debian 12 or Ubuntu 24.04, or name" \
	        "another with make PYTHON=/path/to/python3"; exit 1; } >&2
	.ci/system-packages $(PYTHON)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/venv: $(STAMPS)/system
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade 'pip>=25.1' 'scikit-build-core>=1' ninja
	@touch $@

$(STAMPS)/dependencies: $(STAMPS)/venv pyproject.toml
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", \
	    "rb"))["project"]["dependencies"], sep="\n")' >$(STAMPS)/requirements.txt
	$(BIN)/python -m pip install -q \
	    -r $(if $(CI),requirements.lock,$(STAMPS)/requirements.txt)
	@touch $@

# Not isolated: an isolated build would start from nothing each time.
$(STAMPS)/ldapslam-$(INSTALL): $(STAMPS)/dependencies $(INPUTS)
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation \
	    $(if $(filter editable,$(INSTALL)),--editable) .
	@rm -f $(STAMPS)/ldapslam-* && touch $@

$(STAMPS)/dev: $(STAMPS)/ldapslam-$(INSTALL) pyproject.toml
	$(BIN)/python -m pip install -q $(if $(CI),-r requirements-dev.lock,--group dev)
	@touch $@

$(STAMPS)/release: $(STAMPS)/dev pyproject.toml
	$(BIN)/python -m pip install -q $(if $(CI),-r requirements-dev.lock,--group release)
	@touch $@

clean: ## remove what was built, not the runs
	rm -rf $(VENV) $(STAMPS) build dist .mypy_cache .pytest_cache .ruff_cache \
	    .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.ns/*' -type d -exec rm -rf {} +
