/* spans.c - the type Span: a span as a context manager. */
#include "core.h"

static PyTypeObject *span_type;

static void span_free(struct core_span_object *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);

	core_span_end(self);
	Py_XDECREF(self->name);
	Py_XDECREF(self->category);
	Py_XDECREF(self->args);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* What is left of the keywords, as a dict; NULL with an exception, or where there are none. */
static PyObject *keyword_dict(PyObject *const *args, PyObject *names)
{
	Py_ssize_t count = names ? PyTuple_Size(names) : 0;
	PyObject *dict = count ? PyDict_New() : NULL;

	for (Py_ssize_t i = 0; dict && i < count; i++) {
		if (PyDict_SetItem(dict, PyTuple_GetItem(names, i), args[i]) < 0) {
			Py_DECREF(dict);
			return NULL;
		}
	}
	return dict;
}

static bool is_text_or_none(PyObject *value, const char *what)
{
	if (value == Py_None || PyUnicode_Check(value))
		return true;
	PyErr_Format(PyExc_TypeError, "span() %s must be str, not %R", what,
		     (PyObject *)Py_TYPE(value));
	return false;
}

/* span(name, category=None, /, **args) */
static PyObject *span(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	struct core_span_object *self;

	(void)module;
	if (count < 1 || count > 2 || args[0] == Py_None) {
		PyErr_SetString(PyExc_TypeError, "span() takes a name, a category, and arguments "
						 "by keyword");
		return NULL;
	}
	if (!is_text_or_none(args[0], "name") ||
	    (count > 1 && !is_text_or_none(args[1], "category")))
		return NULL;
	self = PyObject_New(struct core_span_object, span_type);
	if (!self)
		return NULL;
	self->open = false;
	self->name = args[0];
	Py_INCREF(self->name);
	self->category = count > 1 && args[1] != Py_None ? args[1] : NULL;
	Py_XINCREF(self->category);
	self->args = keyword_dict(args + count, names);
	if (PyErr_Occurred()) {
		Py_DECREF((PyObject *)self);
		return NULL;
	}
	return (PyObject *)self;
}

bool core_is_span(PyObject *object)
{
	return Py_TYPE(object) == span_type;
}

void core_span_begin(struct core_span_object *self, enum core_way way)
{
	PyObject *made[2] = { NULL, NULL };
	const char *name, *category;

	if (self->open)
		return;
	name = core_text(self->name, &made[0]);
	category = self->category ? core_text(self->category, &made[1]) : NULL;
	if (name && !PyErr_Occurred()) {
		core_begin(&self->in, name, category, way);
		self->open = true;
		core_span_args(&self->in.span, self->args);
	}
	Py_XDECREF(made[0]);
	Py_XDECREF(made[1]);
	PyErr_Clear();
}

void core_span_end(struct core_span_object *self)
{
	if (!self->open)
		return;
	self->open = false;
	core_leave(&self->in, CORE_BLOCK);
	core_end(&self->in);
}

static PyObject *span_enter(struct core_span_object *self, PyObject *unused)
{
	(void)unused;
	if (!self->open) {
		core_span_begin(self, CORE_BLOCK);
		if (self->open)
			core_enter(&self->in, CORE_BLOCK);
	}
	Py_INCREF((PyObject *)self);
	return (PyObject *)self;
}

static PyObject *span_begin(struct core_span_object *self, PyObject *unused)
{
	return span_enter(self, unused);
}

static PyObject *span_end(struct core_span_object *self, PyObject *unused)
{
	(void)unused;
	core_span_end(self);
	Py_RETURN_NONE;
}

static PyObject *span_exit(struct core_span_object *self, PyObject *const *args, Py_ssize_t count)
{
	PyObject *name;

	if (self->open && count == 3 && args[0] != Py_None) {
		name = PyObject_GetAttrString(args[0], "__name__");
		if (name) {
			PyObject *key = PyUnicode_InternFromString("error");

			if (key)
				core_span_arg(&self->in.span, key, name);
			Py_XDECREF(key);
			Py_DECREF(name);
		}
		PyErr_Clear();
	}
	return span_end(self, NULL);
}

/* set(**args) */
static PyObject *span_set(struct core_span_object *self, PyObject *const *args, Py_ssize_t count,
			  PyObject *names)
{
	Py_ssize_t named = names ? PyTuple_Size(names) : 0;

	if (count) {
		PyErr_SetString(PyExc_TypeError, "set() takes arguments by keyword only");
		return NULL;
	}
	for (Py_ssize_t i = 0; self->open && i < named; i++)
		core_span_arg(&self->in.span, PyTuple_GetItem(names, i), args[i]);
	Py_RETURN_NONE;
}

#define CAST(function) (PyCFunction)(void (*)(void))(function)
static PyMethodDef span_methods[] = {
	{ "__enter__", CAST(span_enter), METH_NOARGS, NULL },
	{ "__exit__", CAST(span_exit), METH_FASTCALL, NULL },
	{ "begin", CAST(span_begin), METH_NOARGS,
	  "begin()\n--\n\nBegin the span; harmless when it has begun.  Returns the span." },
	{ "end", CAST(span_end), METH_NOARGS,
	  "end()\n--\n\nEnd the span; harmless when it has ended." },
	{ "set", CAST(span_set), METH_FASTCALL | METH_KEYWORDS,
	  "set(**args)\n--\n\nGive the open span arguments: a number, a str, else str(value)." },
	{ 0 },
};

static PyType_Slot span_slots[] = {
	{ Py_tp_doc, "A span of time in the trace: a context manager, made by pfw.span()." },
	{ Py_tp_dealloc, span_free },
	{ Py_tp_methods, span_methods },
	{ 0 },
};

static PyType_Spec span_spec = {
	.name = "pfw._core.Span",
	.basicsize = sizeof(struct core_span_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = span_slots,
};

static PyMethodDef methods[] = {
	{ "span", CAST(span), METH_FASTCALL | METH_KEYWORDS,
	  "span(name, category=None, /, **args)" },
	{ 0 },
};

int core_add_spans(PyObject *module)
{
	span_type = (PyTypeObject *)PyType_FromSpec(&span_spec);
	if (!span_type || PyModule_AddFunctions(module, methods) < 0)
		return -1;
	Py_INCREF((PyObject *)span_type);
	return PyModule_AddObject(module, "Span", (PyObject *)span_type);
}
