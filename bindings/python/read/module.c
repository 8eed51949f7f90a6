/* module.c - the extension module pfw._reader: traces as Arrow C streams, by libpfwread.so.1.
 *
 * A module of its own, loaded when something is read: a program that only records has no need of it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdlib.h>

#include <pfw/read.h>

#define STREAM "arrow_array_stream" /* the name that Arrow's PyCapsule interface asks for */
#define READER "pfw_read"

static PyObject *raise(const struct pfw_read *read, int error)
{
	if (error == -ENOMEM)
		return PyErr_NoMemory();
	PyErr_SetString(PyExc_ValueError, pfw_read_error(read));
	return NULL;
}

static void free_reader(PyObject *capsule)
{
	pfw_read_free(PyCapsule_GetPointer(capsule, READER));
}

static void free_stream(PyObject *capsule)
{
	struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, STREAM);

	/* Whoever took the stream out has set release to NULL. */
	if (stream->release)
		stream->release(stream);
	free(stream);
}

static int add_paths(struct pfw_read *read, PyObject *paths)
{
	Py_ssize_t count = PyList_Size(paths);

	for (Py_ssize_t i = 0; i < count; i++) {
		const char *path = PyBytes_AsString(PyList_GetItem(paths, i));
		int error = path ? pfw_read_path(read, path) : -EINVAL;

		if (error) {
			if (path)
				raise(read, error);
			return -1;
		}
	}
	return count < 0 ? -1 : 0;
}

static int set_options(struct pfw_read *read, PyObject *options)
{
	Py_ssize_t count = PyList_Size(options);

	for (Py_ssize_t i = 0; i < count; i++) {
		const char *name, *value;
		int error;

		if (!PyArg_ParseTuple(PyList_GetItem(options, i), "ss", &name, &value))
			return -1;
		error = pfw_read_set(read, name, value);
		if (error) {
			raise(read, error);
			return -1;
		}
	}
	return count < 0 ? -1 : 0;
}

/* The stream of a reader, in a capsule. */
static PyObject *open_stream(struct pfw_read *read)
{
	struct ArrowArrayStream *stream = malloc(sizeof(*stream));
	PyObject *capsule;
	int error;

	if (!stream)
		return PyErr_NoMemory();
	Py_BEGIN_ALLOW_THREADS error = pfw_read_stream(read, stream);
	Py_END_ALLOW_THREADS if (error)
	{
		free(stream);
		return raise(read, error);
	}
	capsule = PyCapsule_New(stream, STREAM, free_stream);
	if (!capsule) {
		stream->release(stream);
		free(stream);
	}
	return capsule;
}

/* stream(paths, options) -> (the reader, its stream): lists of bytes and of pairs of str. */
static PyObject *stream(PyObject *module, PyObject *args)
{
	PyObject *paths, *options, *reader, *opened = NULL;
	struct pfw_read *read;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO", &paths, &options))
		return NULL;
	read = pfw_read_new();
	if (!read)
		return PyErr_NoMemory();
	reader = PyCapsule_New(read, READER, free_reader);
	if (!reader) {
		pfw_read_free(read);
		return NULL;
	}
	if (add_paths(read, paths) == 0 && set_options(read, options) == 0)
		opened = open_stream(read);
	if (!opened) {
		Py_DECREF(reader);
		return NULL;
	}
	return Py_BuildValue("NN", reader, opened);
}

/* problems(reader) -> (how many there are, the texts of the first). */
static PyObject *problems(PyObject *module, PyObject *capsule)
{
	const struct pfw_read *read = PyCapsule_GetPointer(capsule, READER);
	PyObject *texts = read ? PyList_New(0) : NULL;

	(void)module;
	for (uint64_t i = 0; texts && pfw_read_problem(read, i); i++) {
		const char *text = pfw_read_problem(read, i);
		PyObject *one = PyUnicode_DecodeFSDefault(text);

		if (!one || PyList_Append(texts, one))
			Py_CLEAR(texts);
		Py_XDECREF(one);
	}
	return texts ? Py_BuildValue("KN", (unsigned long long)pfw_read_problems(read), texts)
		     : NULL;
}

static PyMethodDef functions[] = {
	{ "stream", stream, METH_VARARGS, NULL },
	{ "problems", problems, METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "pfw._reader",
	.m_doc = "Traces as Arrow C streams.  Use the package pfw, not this.",
	.m_size = -1,
	.m_methods = functions,
};

PyMODINIT_FUNC PyInit__reader(void);

PyMODINIT_FUNC PyInit__reader(void)
{
	return PyModule_Create(&definition);
}
