# A thin front for the CMake presets; everything happens in build/<preset>. `make help` lists
# the targets. Missing Debian packages are installed by tools/deps (root or sudo).

PREFIX ?= /usr/local
.DEFAULT_GOAL := build
.PHONY: build check test bench peers demo python install format clean help

build: ## build the agent and the library into build/release (the default)
	@tools/deps build
	@SONDE_BUILD_TARGET=product tools/build release

check: ## the inner loop: debug build, unit tests, house rules
	@tools/deps build
	@tools/build dev
	@ctest --test-dir build/dev -L 'unit|house' -j 2 --output-on-failure

test: ## everything: all tests on the release build, unit tests and the agent under sanitizers
	@tools/deps test
	@tools/test

bench: ## measure costs beside their peers, or with BASE=REVISION beside that build; ONLY='cpu*': those groups alone
	@tools/deps bench
	@SONDE_BUILD_TARGET='product perf/all' tools/build release -DSONDE_PERF=ON
	@$(if $(BASE),base=$$(tools/build-base '$(BASE)') && perf/beside --base "$$base" $(if $(PAIRS),--pairs $(PAIRS)),perf/run) $(if $(ONLY),--only '$(ONLY)')

peers: ## beside a real collector, Pyroscope, samply and llama-server; ONLY=samply tries that alone
	@tools/deps test
	@tools/build release
	@tools/peers $(ONLY)

demo: ## the reference engine under the agent, and clients; DEMO_SECONDS=20 makes it stop by itself
	@tools/deps demo
	@SONDE_BUILD_TARGET=product tools/build release
	@tools/demo

python: ## build the Python package into build/python, for PYTHONPATH; pip install ./python installs it
	@tools/deps build
	@SONDE_BUILD_TARGET=python tools/build release
	@ln -sfn release/python build/python

install: ## install the release build; honours PREFIX and DESTDIR
	@tools/deps build
	@SONDE_BUILD_TARGET=product tools/build release -DCMAKE_INSTALL_PREFIX='$(PREFIX)'
	@DESTDIR='$(DESTDIR)' cmake --install build/release

format: ## clang-format the lines changed since the last commit
	@command -v git-clang-format >/dev/null || \
	    { echo "make format needs git-clang-format: apt-get install clang-format" >&2; exit 2; }
	@git clang-format --force --extensions c,h,cpp

clean: ## remove everything that was built
	@rm -rf build

help: ## this list
	@awk -F ': ## ' '/^[a-z]+: ## / { printf "  make %-9s%s\n", $$1, $$2 }' Makefile
