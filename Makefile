# The commands a newcomer needs, and the tests that take long:
#   make demo   set up, then run the whole pipeline on this machine (ARGS="..." is passed on)
#   make test   set up, then every check and every test
#   make nightly PART=name   set up, then the tests of tests/nightly/test_NAME.py, which take long; without PART: the names
# Also: make lint, make lock (after changing dependencies in pyproject.toml), make clean.
# pip uses your own configuration (pip.conf, PIP_* variables); no index is named here.

SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
STAMP := .venv/.set-up

.PHONY: help demo test nightly lint lock clean tools

help:
	@sed -n '2,5s/^# \{0,1\}//p' Makefile

demo: $(STAMP) tools
	@$(BIN)/pochade demo $(ARGS)

test: $(STAMP) tools
	@infra/bin/check

nightly: $(STAMP) tools
	@infra/bin/nightly $(PART)

lint: $(STAMP)
	@infra/bin/check lint

# the environment is made again only when the lock, or the metadata of one of the four distributions, change
$(STAMP): requirements.lock pyproject.toml $(addsuffix /pyproject.toml,streams/client infra agents/lab) infra/bin/set-up
	@infra/bin/set-up
	@touch $@

tools:
	@infra/bin/check-tools

lock:
	@infra/bin/lock

clean:
	@if [ -x $(BIN)/pochade ]; then $(BIN)/pochade down; fi
	rm -rf .venv .pochade *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
