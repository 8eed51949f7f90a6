/* values.h - the values of a record batch as Python objects, for programs without an Arrow library. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pfw/read.h>

/* The next batch of a stream as {name: [int, float, str or None]}; {} after the last one; NULL: an
 * exception, also for a column of three numbers. */
PyObject *pfw_values_next(struct ArrowArrayStream *stream);
