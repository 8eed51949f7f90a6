/* module.c - the extension module pfw._core: its parts put together, and what they share. */
#include "core.h"

#include <string.h>

const char *core_text(PyObject *text, PyObject **made)
{
	const char *utf8;

	*made = NULL;
	if (!PyUnicode_Check(text)) {
		PyErr_Format(PyExc_TypeError, "a name must be str, not %R",
			     (PyObject *)Py_TYPE(text));
		return NULL;
	}
	utf8 = PyUnicode_AsUTF8AndSize(text, NULL);
	if (utf8)
		return utf8;
	PyErr_Clear();
	*made = PyUnicode_AsEncodedString(text, "utf-8", "replace");
	return *made ? PyBytes_AsString(*made) : NULL;
}

static void put_text(struct pfw_span *span, const char *key, PyObject *text)
{
	PyObject *made;
	const char *utf8 = core_text(text, &made);

	if (utf8)
		pfw_span_arg_str(span, key, utf8);
	Py_XDECREF(made);
}

static void put_int(struct pfw_span *span, const char *key, PyObject *value)
{
	int overflow;
	long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
	PyObject *text;

	if (!overflow) {
		pfw_span_arg_int(span, key, number);
		return;
	}
	text = PyObject_Str(value);
	if (text)
		put_text(span, key, text);
	Py_XDECREF(text);
}

/* The int or float that a number of numpy or torch is; NULL for all else, also what has a length. */
static PyObject *find_number(PyObject *value)
{
	PyObject *number = NULL;

	if (PyObject_Size(value) >= 0)
		return NULL;
	PyErr_Clear();
	if (PyIndex_Check(value))
		number = PyNumber_Index(value);
	PyErr_Clear();
	if (!number && PyType_GetSlot(Py_TYPE(value), Py_nb_float))
		number = PyNumber_Float(value);
	PyErr_Clear();
	return number;
}

void core_span_arg(struct pfw_span *span, PyObject *key, PyObject *value)
{
	PyObject *made, *own = NULL;
	const char *name = core_text(key, &made);

	if (name && !PyLong_Check(value) && !PyFloat_Check(value) && !PyUnicode_Check(value))
		value = own = find_number(value) ?: PyObject_Str(value);
	if (name && value) {
		if (PyLong_Check(value))
			put_int(span, name, value);
		else if (PyFloat_Check(value))
			pfw_span_arg_double(span, name, PyFloat_AsDouble(value));
		else
			put_text(span, name, value);
	}
	Py_XDECREF(own);
	Py_XDECREF(made);
	PyErr_Clear();
}

void core_span_args(struct pfw_span *span, PyObject *args)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;

	while (args && PyDict_Next(args, &at, &key, &value))
		core_span_arg(span, key, value);
}

void core_span_error(struct pfw_span *span)
{
	PyObject *type, *value, *trace, *name;

	if (!PyErr_Occurred())
		return;
	PyErr_Fetch(&type, &value, &trace);
	name = PyObject_GetAttrString(type, "__name__");
	if (name && PyUnicode_Check(name))
		put_text(span, "error", name);
	Py_XDECREF(name);
	PyErr_Clear();
	PyErr_Restore(type, value, trace);
}

/* Exported by 3.11 and later. */
extern PyObject *PyObject_Vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
				     PyObject *names) __attribute__((weak));

static PyObject *call_slowly(PyObject *callable, PyObject *const *args, Py_ssize_t count,
			     PyObject *names)
{
	Py_ssize_t named = names ? PyTuple_Size(names) : 0;
	PyObject *tuple = PyTuple_New(count), *dict = named ? PyDict_New() : NULL, *result = NULL;

	for (Py_ssize_t i = 0; tuple && i < count; i++) {
		Py_INCREF(args[i]);
		PyTuple_SetItem(tuple, i, args[i]);
	}
	for (Py_ssize_t i = 0; dict && i < named; i++) {
		if (PyDict_SetItem(dict, PyTuple_GetItem(names, i), args[count + i]) < 0)
			goto done;
	}
	if (tuple && (dict || !named))
		result = PyObject_Call(callable, tuple, dict);
done:
	Py_XDECREF(tuple);
	Py_XDECREF(dict);
	return result;
}

PyObject *core_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names)
{
	if (PyObject_Vectorcall)
		return PyObject_Vectorcall(callable, args, nargsf, names);
	return call_slowly(callable, args, (Py_ssize_t)(nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET),
			   names);
}

int core_find_word(const struct core_words *words, PyObject *name)
{
	for (int i = 0; words->words[i]; i++) {
		if (PyUnicode_CompareWithASCIIString(name, words->words[i]) == 0)
			return i;
	}
	return -1;
}

bool core_parse(const struct core_words *words, PyObject *const *args, Py_ssize_t count,
		PyObject *names, PyObject **value)
{
	Py_ssize_t named = names ? PyTuple_Size(names) : 0;
	int at;

	for (at = 0; words->words[at]; at++)
		value[at] = at < count && at < words->positional ? args[at] : NULL;
	if (count > words->positional) {
		PyErr_Format(PyExc_TypeError,
			     "%s() takes at most %zd arguments by position, not %zd",
			     words->function, words->positional, count);
		return false;
	}
	for (Py_ssize_t i = 0; i < named; i++) {
		PyObject *name = PyTuple_GetItem(names, i);

		at = core_find_word(words, name);
		if (at < 0 && words->rest)
			continue;
		if (at < 0 || value[at]) {
			PyErr_Format(PyExc_TypeError, "%s() %s %R", words->function,
				     at < 0 ? "has no argument" : "is given twice:", name);
			return false;
		}
		value[at] = args[count + i];
	}
	for (at = 0; at < words->least; at++) {
		if (!value[at]) {
			PyErr_Format(PyExc_TypeError, "%s() needs the argument %s", words->function,
				     words->words[at]);
			return false;
		}
	}
	return true;
}

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "pfw._core",
	.m_doc = "The recorder's C API.  Use the package pfw, not this.",
	.m_size = -1,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (!module)
		return NULL;
	if (core_add_recorder(module) || core_add_spans(module) || core_add_events(module) ||
	    core_add_nest(module) || core_add_traced(module) || core_add_steps(module) ||
	    core_add_calls(module) || core_add_marks(module) || core_add_kineto(module) ||
	    core_add_gpus(module) || core_add_switch(module)) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
