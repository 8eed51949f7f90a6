/* values.c - the values of a record batch as Python objects; see values.h. */
#include "values.h"

#include <stdbool.h>
#include <string.h>

static bool is_null(const struct ArrowArray *array, int64_t row)
{
	const uint8_t *valid = array->buffers[0];

	return array->null_count && !(valid[row / 8] >> row % 8 & 1);
}

/* Names of files may be any bytes. */
static PyObject *text_of(const struct ArrowArray *array, int64_t row)
{
	const int32_t *begin = array->buffers[1];
	const char *text = array->buffers[2];

	return PyUnicode_DecodeUTF8(text + begin[row], begin[row + 1] - begin[row], "replace");
}

/* The value of a row that is not null, by the column's format. */
static PyObject *value_of(const struct ArrowSchema *schema, const struct ArrowArray *array,
			  PyObject *words, int64_t row)
{
	if (words) {
		int32_t number = ((const int32_t *)array->buffers[1])[row];

		return Py_NewRef(PyList_GetItem(words, number));
	}
	switch (*schema->format) {
	case 'l':
		return PyLong_FromLongLong(((const int64_t *)array->buffers[1])[row]);
	case 'g':
		return PyFloat_FromDouble(((const double *)array->buffers[1])[row]);
	case 'b':
		return PyBool_FromLong(((const uint8_t *)array->buffers[1])[row / 8] >> row % 8 &
				       1);
	case 'u':
		return text_of(array, row);
	default:
		PyErr_Format(PyExc_TypeError, "column %s: no Python value for Arrow's format %s",
			     schema->name, schema->format);
		return NULL;
	}
}

/* The texts of a dictionary, made once. */
static PyObject *words_of(const struct ArrowArray *array)
{
	PyObject *words = PyList_New(0);

	for (int64_t i = 0; words && i < array->length; i++) {
		PyObject *word = text_of(array, i);

		if (!word || PyList_Append(words, word))
			Py_CLEAR(words);
		Py_XDECREF(word);
	}
	return words;
}

static PyObject *column_of(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
	PyObject *words = array->dictionary ? words_of(array->dictionary) : NULL;
	PyObject *column = array->dictionary && !words ? NULL : PyList_New(0);

	for (int64_t row = 0; column && row < array->length; row++) {
		PyObject *value = is_null(array, row) ? Py_NewRef(Py_None)
						      : value_of(schema, array, words, row);

		if (!value || PyList_Append(column, value))
			Py_CLEAR(column);
		Py_XDECREF(value);
	}
	Py_XDECREF(words);
	return column;
}

static PyObject *columns_of(const struct ArrowSchema *schema, const struct ArrowArray *batch)
{
	PyObject *columns = PyDict_New();

	for (int64_t i = 0; columns && batch->release && i < schema->n_children; i++) {
		PyObject *column = column_of(schema->children[i], batch->children[i]);

		if (!column || PyDict_SetItemString(columns, schema->children[i]->name, column))
			Py_CLEAR(columns);
		Py_XDECREF(column);
	}
	return columns;
}

PyObject *pfw_values_next(struct ArrowArrayStream *stream)
{
	struct ArrowSchema schema;
	struct ArrowArray batch;
	PyObject *columns;
	int error;

	if (stream->get_schema(stream, &schema))
		return PyErr_NoMemory();
	Py_BEGIN_ALLOW_THREADS error = stream->get_next(stream, &batch);
	Py_END_ALLOW_THREADS columns = error ? PyErr_NoMemory() : columns_of(&schema, &batch);
	if (!error && batch.release)
		batch.release(&batch);
	schema.release(&schema);
	return columns;
}
