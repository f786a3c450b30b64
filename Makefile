# Thin: CMake builds, ctest tests, tools/ holds the scripts. `make` prints this list.
.DEFAULT_GOAL := help
.PHONY: help deps build cuda cuda-check install package demo test gpu-test python-test wheel bench format docs sanitize sanitize-readers tsan torture fuzz clean

# As many jobs as cores, but a gigabyte and a half of free memory for each.
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemAvailable/ { m = int($$2 / 1500000) } \
    END { print (m > 0 && m < cores) ? m : cores }' /proc/meminfo)
FUZZ_SECONDS ?= 15
TORTURE_SECONDS ?= 60
PREFIX ?= /usr/local
PYTHON ?= python3
# libelmo_cuda.so takes minutes to build: made where there is a GPU, and by `make cuda` anywhere.
ELMO_CUDA ?= $(if $(wildcard /dev/nvidia0),AUTO,OFF)
configure = cmake --preset release -DELMO_CUDA=$(ELMO_CUDA)

help:
	@echo "make demo      install what is needed, build, and train, score and use a model of WordNet (minutes)"
	@echo "make test      build and run all tests"
	@echo "make gpu-test  build and run the tests that need an NVIDIA GPU"
	@echo "make python-test  install the Python package in a fresh environment of PYTHON ($(PYTHON)) and run its tests"
	@echo "make wheel     make wheels of the Python package that run on a bare machine (after make cuda also for GPUs): build-python/wheels"
	@echo "make build     build the program, build/bin/elmo, and where there is a GPU the CUDA backend"
	@echo "make cuda      build the program and the CUDA backend, build/lib/libelmo_cuda.so (needs nvcc)"
	@echo "make cuda-check  see whether the CUDA backend compiles, fast and without optimisation: build-cuda"
	@echo "make install   install program, library and headers to PREFIX ($(PREFIX))"
	@echo "make package   make .deb packages and a .tar.gz that runs on a bare machine: build-package/packages"
	@echo "make deps      install the missing Debian packages for building"
	@echo "make bench     measure the speed of the training step on this machine"
	@echo "make format    format all sources"
	@echo "make docs      write docs/cli.md from the options"
	@echo "make sanitize  build with address and undefined-behaviour sanitizers and run the tests"
	@echo "make tsan      build with the thread sanitizer and run the tests of what works side by side"
	@echo "make torture   kill, starve and race the program for TORTURE_SECONDS ($(TORTURE_SECONDS)) and count what is lost"
	@echo "make fuzz      build the fuzz targets with clang and run each for FUZZ_SECONDS ($(FUZZ_SECONDS))"

deps:
	@tools/install_deps.sh build

build: deps
	@$(configure) -DELMO_TESTS=OFF >/dev/null
	@cmake --build build -j $(JOBS)

cuda:
	@$(MAKE) --no-print-directory build ELMO_CUDA=ON

# Where there is no GPU, only compiling and linking can fail. Without optimisation that takes a third of the time, in a
# folder of its own, so that nobody runs such kernels by mistake.
cuda-check: deps
	@cmake --preset release -B build-cuda -DELMO_TESTS=OFF -DELMO_CUDA=ON -DCMAKE_CUDA_FLAGS=-Ofc=max >/dev/null
	@cmake --build build-cuda -j $(JOBS) --target elmo_cuda
	@cmake --install build-cuda --component cuda --prefix build-cuda/prefix >/dev/null

install: deps
	@$(configure) -DELMO_TESTS=OFF -DELMO_SHARED=ON >/dev/null
	@cmake --build build -j $(JOBS)
	@cmake --install build --prefix $(PREFIX)

package:
	@tools/install_deps.sh package
	@cmake --preset package -DELMO_CUDA=$(ELMO_CUDA) -DELMO_SHARED=ON >/dev/null
	@cmake --build build-package -j $(JOBS)
	@cd build-package && cpack
	@tools/check_package.sh build-package/packages

demo:
	@tools/install_deps.sh demo
	@$(MAKE) --no-print-directory build
	@tools/demo.sh

test:
	@tools/install_deps.sh test
	@$(configure) -DELMO_TESTS=ON >/dev/null
	@cmake --build build -j $(JOBS)
	@ctest --test-dir build --output-on-failure -j $$((2 * $(JOBS)))  # many of them wait

gpu-test:
	@tools/install_deps.sh test
	@cmake --preset release -DELMO_TESTS=ON -DELMO_GPU_TESTS=ON -DELMO_CUDA=ON >/dev/null
	@cmake --build build -j $(JOBS) --target elmo test_gpu_backend test_gpu_model test_gpu_train
	@tools/gpu_test.sh build

python-test:
	@tools/install_deps.sh python
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) tools/python_test.sh $(PYTHON)

wheel:
	@tools/install_deps.sh python
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) tools/make_wheel.sh $(PYTHON)

bench: build
	@build/bin/elmo bench head --labels 100000 --width 384 --batch-size 128 --precision bf16
	@build/bin/elmo bench step --labels 100000 --width 512 --batch-size 128 --max-length 32

format:
	@tools/check_format.sh --fix

docs: build
	@tools/make_cli_docs.sh

# clang, whose sanitized builds take a third of the time of GCC's; one build serves tests and fuzz targets.
# Tests with "Slow" in their name take minutes under sanitizers and are left to `make test`.
sanitize:
	@tools/install_deps.sh ci
	@cmake --preset sanitize >/dev/null
	@cmake --build build-asan -j $(JOBS)
	@UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build-asan --output-on-failure -j $(JOBS) -E Slow

# The layers that read what comes from outside: a third of the time of all, for continuous integration.
READERS = base config memory text io metrics data
sanitize-readers:
	@tools/install_deps.sh ci
	@cmake --preset sanitize >/dev/null
	@cmake --build build-asan -j $(JOBS) --target $(READERS:%=test_%)
	@UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build-asan --output-on-failure -j $(JOBS) -E Slow \
	    --no-tests=error -L "^($$(echo $(READERS) | tr ' ' '|'))$$"

# The layers with threads of their own.
THREADED = base io ranks data backend side_by_side
tsan:
	@tools/install_deps.sh ci
	@cmake --preset tsan >/dev/null
	@cmake --build build-tsan -j $(JOBS) --target $(THREADED:%=test_%)
	@for layer in $(THREADED); do TSAN_OPTIONS=suppressions=tools/tsan_suppressions.txt \
	    build-tsan/bin/test_$$layer --gtest_brief=1 --gtest_filter=-*Slow* || exit 1; done

torture:
	@tools/install_deps.sh torture
	@$(MAKE) --no-print-directory build
	@tools/torture.py build/bin/elmo --seconds $(TORTURE_SECONDS)

fuzz:
	@tools/install_deps.sh ci
	@tools/fuzz.sh $(FUZZ_SECONDS) $(JOBS)

clean:
	@rm -rf build build-asan build-cuda build-tsan build-python demo
