# The front door. `make` lists its targets; meson and the scripts in tools/ do the work.
MESON ?= meson
NINJA ?= ninja
BUILD := build
# Extra arguments for the first configuration: make build MESON_ARGS="-Dbuildtype=debug"
MESON_ARGS ?=
# The interpreter that the Python packages are built for: the shell's, also in a virtual environment. (Meson's may be a different one.)
PYTHON ?= $(shell python3 -c 'import sys; print(sys.executable)' 2>/dev/null)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup build run test test-locale test-python-debug test-pytorch test-cpus test-arm64 test-clean bench lint format layers sanitize mutate fuzz reliability soak \
        coverage valgrind install uninstall abi deb clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install the Debian packages needed to build and test, if any are missing
	@tools/setup test

build: ## build everything; the command is build/mtprof
	@tools/setup build
	@test -f $(BUILD)/build.ninja || $(MESON) setup $(BUILD) $(if $(PYTHON),-Dpython_path="$(PYTHON)") $(MESON_ARGS)
	@$(FOLLOW_PYTHON)
	@$(NINJA) -C $(BUILD)

# Reconfigures if the last build was for another interpreter, such as another virtual environment's. --wipe: Debian's meson 1.0 has
# no other way to look up the interpreter again.
FOLLOW_PYTHON = \
    if [ -n "$(PYTHON)" ] && [ -f $(BUILD)/src/python/python_path ] && [ "$$(cat $(BUILD)/src/python/python_path)" != "$(PYTHON)" ]; then \
        echo "make: configuring for $(PYTHON); the last build was for $$(cat $(BUILD)/src/python/python_path)"; \
        $(MESON) setup --wipe -Dpython_path="$(PYTHON)" $(BUILD) | grep -i python; \
        test -f $(BUILD)/build.ninja; \
    fi

run: build ## profile a real workload: prints its averages and writes a trace
	@tools/demo

# Both suites run even if the other fails; test-summary counts them together and sets the exit status.
test: setup build ## run all tests; the last line counts them
	@rm -f $(BUILD)/meson-logs/testlog.json $(BUILD)/pytest.xml
	@$(MESON) test -C $(BUILD) --timeout-multiplier 4 --print-errorlogs || true
	@if ls tests/mindtorch_v2/test_*.py >/dev/null 2>&1; then \
	    PYTHONPATH=src "$$(tools/setup --python)" -m pytest -q tests/mindtorch_v2 tests/pytorch --junitxml=$(BUILD)/pytest.xml || true; \
	fi
	@tools/test-summary $(BUILD)

# Without the op harness and the packages, which are long and format nothing.
test-locale: setup build ## run the tests in a locale with a decimal comma
	@rm -f $(BUILD)/meson-logs/testlog*.json $(BUILD)/pytest.xml
	@$(MESON) test -C $(BUILD) --timeout-multiplier 4 --print-errorlogs --no-suite package --wrapper "'$(CURDIR)/tools/in-locale' '$(call absolute,$(BUILD))'" || true
	@mv $(BUILD)/meson-logs/testlog-in-locale.json $(BUILD)/meson-logs/testlog.json
	@PYTHONPATH=src tools/in-locale $(BUILD) "$$(tools/setup --python)" -m pytest -q tests/mindtorch_v2 --ignore-glob "*/test_ops*.py" --ignore-glob "*/test_kernels.py" \
	    --junitxml=$(BUILD)/pytest.xml || true
	@tools/test-summary $(BUILD) "locale"

bench: build ## run the benchmarks: prints a table and writes build/bench.json
	@tools/bench

lint: ## check formatting, headers, clang-tidy, sizes, scripts and docs
	@tools/setup lint
	@$(MAKE) --no-print-directory build
	@tools/lint

format: ## format the C files with clang-format
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs -r clang-format -i

layers: ## check the include directions of docs/ARCHITECTURE.md
	@tools/check_layers --self-test
	@tools/check_layers

sanitize: setup sanitize-asan sanitize-tsan ## run the unit tests under ASan+UBSan and under TSan

sanitize-asan: SANITIZERS := address,undefined
sanitize-tsan: SANITIZERS := thread
sanitize-%: export ASAN_OPTIONS = abort_on_error=1:detect_stack_use_after_return=1
sanitize-%: export UBSAN_OPTIONS = halt_on_error=1:print_stacktrace=1
sanitize-%: export TSAN_OPTIONS = halt_on_error=1:second_deadlock_stack=1
sanitize-%:
	@test -f build-$*/build.ninja || $(MESON) setup build-$* \
	    -Dbuildtype=debugoptimized -Db_sanitize=$(SANITIZERS) -Db_lundef=false $(MESON_ARGS)
	@$(NINJA) -C build-$*
	@rm -f build-$*/meson-logs/testlog.json
	@$(MESON) test -C build-$* --suite unit --timeout-multiplier 10 --print-errorlogs || true
	@tools/test-summary build-$* "$* ($(SANITIZERS))"

mutate: setup ## mutation testing: do the tests catch each fault in tools/mutate.faults? (FAULTS="name ...": some)
	@tools/mutate $(FAULTS)

FUZZ_RUNS ?= 20000
fuzz: ## run the fuzzers with libFuzzer, FUZZ_RUNS each (FUZZ="-g -t 600 name ...": see tools/fuzz)
	@tools/fuzz -r $(FUZZ_RUNS) $(FUZZ)

SHARE ?= 1
reliability: setup build ## run the tests of docs/reliability.md at full scale, half an hour (SHARE=0.1: a tenth; ROWS="1 7")
	@nice tests/stress/reliability -b $(BUILD) -s $(SHARE) -o $(BUILD)/reliability.json $(ROWS)

SOAK_MINUTES ?= 10
soak: setup build ## repeat the reliability tests for SOAK_MINUTES; the next call continues (SOAK="-n": start over)
	@nice tests/stress/soak -b $(BUILD) -m $(SOAK_MINUTES) $(SOAK)

coverage: ## line and branch coverage of the unit tests, by folder (gcovr)
	@tools/setup coverage
	@tools/coverage

valgrind: ## run the unit tests under valgrind's memcheck
	@tools/setup valgrind
	@tools/valgrind

test-cpus: build ## run the tests of the kernels on emulated CPUs: without AVX-512, and without AVX (qemu)
	@tools/setup cpus
	@tools/test_cpus

test-clean: ## test the wheel, the Debian packages, `make run` and `make test` in an emptied Debian 12 (root; CLEAN="-k FOLDER deb": see tools/test_clean)
	@tools/setup clean
	@nice tools/test_clean $(CLEAN)

test-arm64: ## build for arm64 and run the C unit tests under qemu; needs Debian's apt
	@tools/setup arm64
	@tools/test_arm64

# Where PyTorch is not installed, it is fetched into the build folder.
test-pytorch: setup build ## run the tests with real PyTorch, which is fetched from PyPI if need be
	@tools/with-pytorch $(BUILD) "$$(tools/setup --python)" -m pytest -q tests/pytorch $(PYTESTS)

test-python-debug: ## run the Python tests under Debian's debug build of Python
	@tools/setup debug
	@tools/python-debug $(PYTESTS)

# Not abspath, which splits a path at its spaces.
absolute = $(if $(filter /%,$(firstword $(1))),$(1),$(CURDIR)/$(1))

# Of one's own prefix, lib: pkg-config's files are then in PREFIX/lib/pkgconfig on every system. That of /usr is the system's choice.
LIBDIR ?= $(if $(filter-out /usr /usr/ /usr/local /usr/local/,$(PREFIX)),lib)

install: build ## install; PREFIX, LIBDIR and DESTDIR are honoured
	@tools/installed place $(BUILD) "$(if $(PREFIX),$(call absolute,$(PREFIX)))" "$(LIBDIR)" $(MESON)
	@$(MESON) install -C $(BUILD) $(if $(DESTDIR),--destdir "$(call absolute,$(DESTDIR))")
	@tools/installed remember $(BUILD)

abi: setup build ## compare the libraries' ABI with the listings in tests/abi (ABI=--set: write them)
	@tools/abi --build $(BUILD) $(ABI)

deb: ## build Debian packages, into build/deb, and check them with lintian
	@tools/setup deb
	@tools/deb $(BUILD)

uninstall: ## remove what the last `make install` of this build folder installed
	@tools/installed remove $(BUILD)

clean: ## remove all build folders
	@rm -rf $(BUILD) build-asan build-tsan build-mutate build-fuzz build-coverage build-valgrind build-debug build-arm64 build-ppc64el
