#!/usr/bin/env bash
# What of the package the other output does not have.
set -eu
# shellcheck disable=SC2086 # a list of words
cmake -G Ninja -S . -B build-conda-python ${CMAKE_ARGS-} -DPFW_TESTS=OFF -DCMAKE_INSTALL_LIBDIR=lib -DPFW_PYTHON=ON \
	-DPFW_PYTHON_DIR="${SP_DIR#"$PREFIX/"}" -DPython_EXECUTABLE="$PYTHON"
cmake --build build-conda-python
cmake --install build-conda-python --prefix "$SRC_DIR/python"
mkdir -p "$PREFIX/bin" "$SP_DIR"
cp -a "$SRC_DIR/python/${SP_DIR#"$PREFIX/"}/." "$SP_DIR"
cp -a "$SRC_DIR"/python/bin/pfw-* "$PREFIX/bin"
