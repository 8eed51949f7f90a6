/* module.c - the extension module pfw._reader: traces as Arrow C streams, by libpfwread.so.1.
 *
 * A module of its own, loaded when something is read: a program that only records has no need of it.
 */
#include <errno.h>
#include <stdlib.h>

#include "values.h"

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

/* The stream of a reader's lines (`command` NULL) or table, in a capsule. */
static PyObject *open_stream(struct pfw_read *read, const char *command, const char *const *options)
{
	struct ArrowArrayStream *stream = malloc(sizeof(*stream));
	PyObject *capsule;
	int error;

	if (!stream)
		return PyErr_NoMemory();
	Py_BEGIN_ALLOW_THREADS error = command ? pfw_read_table(read, command, options, stream)
					       : pfw_read_stream(read, stream);
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

/* A reader of these paths and options, in a capsule, and in *read. */
static PyObject *new_reader(PyObject *paths, PyObject *options, struct pfw_read **read)
{
	PyObject *reader;

	*read = pfw_read_new();
	if (!*read)
		return PyErr_NoMemory();
	reader = PyCapsule_New(*read, READER, free_reader);
	if (!reader)
		pfw_read_free(*read);
	else if (add_paths(*read, paths) || set_options(*read, options))
		Py_CLEAR(reader);
	return reader;
}

/* stream(paths, options) -> (the reader, its stream): lists of bytes and of pairs of str. */
static PyObject *stream(PyObject *module, PyObject *args)
{
	PyObject *paths, *options, *reader, *opened;
	struct pfw_read *read;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO", &paths, &options))
		return NULL;
	reader = new_reader(paths, options, &read);
	opened = reader ? open_stream(read, NULL, NULL) : NULL;
	if (!opened) {
		Py_XDECREF(reader);
		return NULL;
	}
	return Py_BuildValue("NN", reader, opened);
}

/* The texts of a list of pairs, which own them, in turn, then NULL; free() it. */
static const char **texts_of(PyObject *pairs)
{
	Py_ssize_t count = PyList_Size(pairs);
	const char **text = count < 0 ? NULL : calloc(2 * (size_t)count + 1, sizeof(*text));

	if (!text && !PyErr_Occurred())
		PyErr_NoMemory();
	for (Py_ssize_t i = 0; text && i < count; i++) {
		if (PyArg_ParseTuple(PyList_GetItem(pairs, i), "ss", &text[2 * i],
				     &text[2 * i + 1]))
			continue;
		free(text);
		text = NULL;
	}
	return text;
}

/* reader(paths, options) -> the reader. */
static PyObject *reader(PyObject *module, PyObject *args)
{
	PyObject *paths, *options;
	struct pfw_read *read;

	(void)module;
	return PyArg_ParseTuple(args, "OO", &paths, &options) ? new_reader(paths, options, &read)
							      : NULL;
}

/* table(reader, command, the command's options) -> its stream. */
static PyObject *table(PyObject *module, PyObject *args)
{
	PyObject *capsule, *pairs, *opened;
	struct pfw_read *read;
	const char *command, **text;

	(void)module;
	if (!PyArg_ParseTuple(args, "OsO", &capsule, &command, &pairs))
		return NULL;
	read = PyCapsule_GetPointer(capsule, READER);
	text = read ? texts_of(pairs) : NULL;
	opened = text ? open_stream(read, command, text) : NULL;
	free(text);
	return opened;
}

/* stop(reader): its table(), in another thread, ends. */
static PyObject *stop(PyObject *module, PyObject *capsule)
{
	struct pfw_read *read = PyCapsule_GetPointer(capsule, READER);

	(void)module;
	if (!read)
		return NULL;
	pfw_read_stop(read);
	Py_RETURN_NONE;
}

/* batch(stream) -> {name: [value]} of the next batch; {}: there is none. */
static PyObject *batch(PyObject *module, PyObject *capsule)
{
	struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, STREAM);

	(void)module;
	return stream ? pfw_values_next(stream) : NULL;
}

/* Called without the interpreter's lock. */
static void add_part(void *user, const char *part, int64_t least_ns, int64_t greatest_ns)
{
	PyGILState_STATE state = PyGILState_Ensure();
	PyObject **parts = user, *one;

	one = *parts ? Py_BuildValue("sLL", part, (long long)least_ns, (long long)greatest_ns)
		     : NULL;
	if (*parts && (!one || PyList_Append(*parts, one)))
		Py_CLEAR(*parts);
	Py_XDECREF(one);
	PyGILState_Release(state);
}

/* divide(paths, options, blocks) -> [(part, least ts, greatest ts)]. */
static PyObject *divide(PyObject *module, PyObject *args)
{
	PyObject *paths, *options, *reader, *parts;
	struct pfw_read *read;
	unsigned long long blocks;
	int error;

	(void)module;
	if (!PyArg_ParseTuple(args, "OOK", &paths, &options, &blocks))
		return NULL;
	reader = new_reader(paths, options, &read);
	parts = reader ? PyList_New(0) : NULL;
	if (!parts) {
		Py_XDECREF(reader);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS error = pfw_read_divide(read, blocks, add_part, &parts);
	Py_END_ALLOW_THREADS if (error)
	{
		Py_CLEAR(parts);
		raise(read, error);
	}
	Py_DECREF(reader);
	return parts;
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
	{ "stream", stream, METH_VARARGS, NULL }, { "reader", reader, METH_VARARGS, NULL },
	{ "table", table, METH_VARARGS, NULL },	  { "stop", stop, METH_O, NULL },
	{ "batch", batch, METH_O, NULL },	  { "divide", divide, METH_VARARGS, NULL },
	{ "problems", problems, METH_O, NULL },	  { NULL, NULL, 0, NULL },
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
