# SPDX-License-Identifier: Apache-2.0
# make demo   installs what is missing, builds, and asks the bundled model one question
# make test   the same set-up, then every test that this machine can run
# make soak   fuzz targets for a minute each, 256 streams for five, HTTP fuzz for ten, kills, schemas, and the tests again
# make asan, make tsan   the tests under sanitizers
# make cuda-all          compiles src/cuda for every architecture that it supports
# make install           installs the built program (DESTDIR and PREFIX are heeded)
PREFIX ?= /usr/local
ARCHITECTURES = 80 86 89 90a 100a 103a 120a 121a

.PHONY: demo build test soak asan tsan cuda-all install format

demo:
	@tools/setup.sh demo
	@cmake --preset release >/dev/null
	@cmake --build build --target braid
	build/braid run models/pocket 'What does "river" mean?' --temperature 0

build:
	@tools/setup.sh test
	@cmake --preset release >/dev/null
	@cmake --build build

test: build
	@tools/npm_packages.sh
	@tools/run_tests.py build

asan:
	@tools/setup.sh test
	@tools/npm_packages.sh
	@cmake --preset debug >/dev/null
	@cmake --build build-debug
	@tools/run_tests.py build-debug

tsan:
	@tools/setup.sh test
	@tools/npm_packages.sh
	@cmake --preset tsan >/dev/null
	@cmake --build build-tsan
	@tools/run_tests.py build-tsan

soak: build
	@tools/setup.sh soak
	@cmake --preset fuzz >/dev/null
	@cmake --build build-fuzz --target fuzz_targets
	@tools/run_fuzz.sh build-fuzz 60
	@BRAID_BINARY_DIR=build /usr/bin/python3 tests/server/load_test.py --soak 300
	@BRAID_BINARY_DIR=build /usr/bin/python3 tests/server/gap_test.py --quiet
	@BRAID_BINARY_DIR=build /usr/bin/python3 tests/server/crash_test.py --soak 30
	@tools/npm_packages.sh
	@BRAID_BINARY_DIR=build /usr/bin/python3 tests/server/schemas_test.py --soak
	@cmake --preset debug >/dev/null
	@cmake --build build-debug --target braid
	@BRAID_BINARY_DIR=build-debug /usr/bin/python3 tests/server/http_fuzz.py --seconds 600
	@tools/run_tests.py build --repeat 10
	@build/engine_test --gtest_brief=1 --gtest_also_run_disabled_tests --gtest_filter='*DISABLED_*'

cuda-all:
	@tools/setup.sh demo
	@cmake --preset cuda-all "-DBRAID_CUDA_ARCHITECTURES=$(subst $(eval ) ,;,$(ARCHITECTURES))" >/dev/null
	@cmake --build build-cuda-all --target braid_cuda

install:
	@cmake --build build --target braid braid_library
	@cmake --install build --prefix $(PREFIX)

format:
	@git ls-files '*.cpp' '*.h' '*.cu' '*.cuh' | xargs clang-format -i
