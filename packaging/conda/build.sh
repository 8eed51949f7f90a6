#!/usr/bin/env bash
set -eu
# shellcheck disable=SC2086 # a list of words
cmake -G Ninja -S . -B build-conda ${CMAKE_ARGS-} -DPFW_TESTS=OFF -DCMAKE_INSTALL_LIBDIR=lib
cmake --build build-conda
cmake --install build-conda --prefix "$PREFIX"
