# The commands a newcomer needs, and the tests that take long:
#   make demo   set up, then run the whole pipeline on this machine (ARGS="..." is passed on)
#   make test   set up, then every check and every test
#   make test-fast   set up without torch (640 MB), then the tests that need no model, broker or vector store: minutes
#   make nightly PART=name   set up, then the tests of tests/nightly/test_NAME.py, which take long; without PART: the names
# Also: make lint, make lock (after changing dependencies in pyproject.toml), make clean.
# pip uses your own configuration (pip.conf, PIP_* variables); no index is named here.

SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
STAMP := .venv/.set-up
FAST_STAMP := .venv-test/.set-up
METADATA := pyproject.toml $(addsuffix /pyproject.toml,streams/client infra agents/lab) infra/bin/set-up

.PHONY: help demo test test-fast nightly lint lock clean tools

help:
	@sed -n '2,6s/^# \{0,1\}//p' Makefile

demo: $(STAMP) tools
	@$(BIN)/pochade demo $(ARGS)

test: $(STAMP) tools
	@infra/bin/check

test-fast: $(FAST_STAMP)
	@infra/bin/check-fast

nightly: $(STAMP) tools
	@infra/bin/nightly $(PART)

lint: $(STAMP)
	@infra/bin/check lint

# the environment is made again only when the lock, or the metadata of one of the four distributions, change
$(STAMP): requirements.lock $(METADATA)
	@infra/bin/set-up
	@touch $@

$(FAST_STAMP): requirements-test.lock $(METADATA)
	@infra/bin/set-up .venv-test requirements-test.lock
	@touch $@

tools:
	@infra/bin/check-tools

lock:
	@infra/bin/lock

clean:
	@if [ -x $(BIN)/pochade ]; then $(BIN)/pochade down; fi
	rm -rf .venv .venv-test .pochade *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
