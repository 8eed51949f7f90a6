/* traced.c - the type Traced: a function, and a span around each call of it, with a mark's category and
 * arguments where it has one. */
#include "core.h"

#include <stddef.h>
#include <structmember.h>

struct traced {
	PyObject_HEAD vectorcallfunc vectorcall;
	PyObject *function, *name, *category;  /* any callable; str; str or NULL */
	const char *name_text, *category_text; /* theirs */
	struct core_mark *mark;		       /* or NULL */
	PyObject *picks;		       /* tuple or NULL */
	PyObject *dict, *weak;
};

static PyTypeObject *traced_type;
static PyObject *method_type; /* types.MethodType */

static PyObject *traced_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf,
				   PyObject *names)
{
	struct traced *self = (struct traced *)object;
	struct core_open open;
	PyObject *result;

	core_begin(&open, self->name_text, self->category_text, CORE_CALL);
	core_enter(&open, CORE_CALL);
	result = core_call(self->function, args, nargsf, names);
	if (!result)
		core_span_error(&open.span);
	core_leave(&open, CORE_CALL);
	core_end(&open);
	return result;
}

static PyObject *marked_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf,
				   PyObject *names)
{
	struct traced *self = (struct traced *)object;
	Py_ssize_t count = (Py_ssize_t)(nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET);
	struct core_taken taken[CORE_PICKS];
	struct core_open open;
	PyObject *result;

	if (!core_mark_on(self->mark))
		return core_call(self->function, args, nargsf, names);
	core_begin(&open, self->name_text, core_mark_category(self->mark), CORE_CALL);
	core_enter(&open, CORE_CALL);
	if (self->picks)
		core_mark_take(self->mark, &open.span, self->picks, args, count, names, taken);
	result = core_call(self->function, args, nargsf, names);
	core_mark_args(self->mark, &open.span, self->picks);
	if (self->picks)
		core_mark_give_back(self->mark, self->picks, taken);
	if (!result)
		core_span_error(&open.span);
	core_leave(&open, CORE_CALL);
	core_end(&open);
	return result;
}

/* As somebody calls it who does not know of vectorcall. */
static PyObject *traced_call(PyObject *object, PyObject *args, PyObject *keywords)
{
	struct traced *self = (struct traced *)object;
	struct core_open open;
	PyObject *result;

	if (self->mark && !core_mark_on(self->mark))
		return PyObject_Call(self->function, args, keywords);
	core_begin(&open, self->name_text,
		   self->mark ? core_mark_category(self->mark) : self->category_text, CORE_CALL);
	core_enter(&open, CORE_CALL);
	result = PyObject_Call(self->function, args, keywords);
	if (self->mark)
		core_mark_args(self->mark, &open.span, NULL);
	if (!result)
		core_span_error(&open.span);
	core_leave(&open, CORE_CALL);
	core_end(&open);
	return result;
}

static const char *text_of(PyObject *text)
{
	const char *utf8 = text && text != Py_None ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;

	return utf8;
}

/* A Traced without a mark; its parts have been checked. */
static struct traced *make_traced(PyObject *function, PyObject *name, PyObject *category)
{
	struct traced *self = PyObject_GC_New(struct traced, traced_type);

	if (!self)
		return NULL;
	self->vectorcall = traced_vectorcall;
	self->dict = self->weak = self->picks = NULL;
	self->mark = NULL;
	self->function = function;
	Py_INCREF(self->function);
	self->name = name;
	Py_INCREF(self->name);
	self->category = category;
	Py_INCREF(self->category);
	self->name_text = text_of(self->name);
	self->category_text = text_of(self->category);
	PyObject_GC_Track(self);
	if (PyErr_Occurred()) {
		Py_DECREF((PyObject *)self);
		return NULL;
	}
	return self;
}

/* traced(function, name, category=None) */
static PyObject *make(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
	(void)module;
	if (count != 3 || !PyUnicode_Check(args[1]) ||
	    !(args[2] == Py_None || PyUnicode_Check(args[2]))) {
		PyErr_SetString(PyExc_TypeError,
				"traced() takes a function, its name and its category or None");
		return NULL;
	}
	return (PyObject *)make_traced(args[0], args[1], args[2]);
}

/* marked(function, name, mark, picks) */
static PyObject *make_marked(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
	struct traced *self;

	(void)module;
	if (count != 4 || !PyUnicode_Check(args[1]) || !core_is_mark(args[2]) ||
	    !PyTuple_Check(args[3])) {
		PyErr_SetString(PyExc_TypeError,
				"marked() takes a function, its name, a Mark and a tuple of picks");
		return NULL;
	}
	self = make_traced(args[0], args[1], Py_None);
	if (!self)
		return NULL;
	self->vectorcall = marked_vectorcall;
	self->mark = (struct core_mark *)args[2];
	Py_INCREF(args[2]);
	if (PyTuple_Size(args[3])) {
		self->picks = args[3];
		Py_INCREF(self->picks);
	}
	return (PyObject *)self;
}

static int traced_traverse(struct traced *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE((PyObject *)self));
	Py_VISIT(self->function);
	Py_VISIT((PyObject *)self->mark);
	Py_VISIT(self->dict);
	return 0;
}

static int traced_clear(struct traced *self)
{
	Py_CLEAR(self->dict);
	return 0;
}

static void traced_free(struct traced *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);

	PyObject_GC_UnTrack(self);
	if (self->weak)
		PyObject_ClearWeakRefs((PyObject *)self);
	traced_clear(self);
	Py_DECREF(self->function);
	Py_DECREF(self->name);
	Py_DECREF(self->category);
	Py_XDECREF((PyObject *)self->mark);
	Py_XDECREF(self->picks);
	PyObject_GC_Del(self);
	Py_DECREF(type);
}

/* As a function does, it becomes a method of what it is an attribute of. */
static PyObject *traced_get(PyObject *self, PyObject *object, PyObject *type)
{
	(void)type;
	if (!object || object == Py_None) {
		Py_INCREF(self);
		return self;
	}
	return PyObject_CallFunctionObjArgs(method_type, self, object, NULL);
}

/* What it has not itself, the function has: __code__, __defaults__, ... */
static PyObject *traced_getattr(PyObject *self, PyObject *name)
{
	PyObject *value = PyObject_GenericGetAttr(self, name);

	if (value || !PyErr_ExceptionMatches(PyExc_AttributeError))
		return value;
	PyErr_Clear();
	return PyObject_GetAttr(((struct traced *)self)->function, name);
}

static PyObject *traced_repr(struct traced *self)
{
	return PyUnicode_FromFormat("<traced %R>", self->function);
}

/* isinstance(it, types.FunctionType), if it is one's: torch.compile() and cloudpickle take functions
 * apart, and nothing that only looks like one. */
static PyObject *traced_class(PyObject *self, void *unused)
{
	(void)unused;
	return PyObject_GetAttrString(((struct traced *)self)->function, "__class__");
}

/* Pickled as functions are: by its name.  Not __reduce__, which object's would seek in __class__. */
static PyObject *traced_reduce(PyObject *self, PyObject *protocol)
{
	(void)protocol;
	return PyObject_GetAttrString(self, "__qualname__");
}

/* One function is the same however often it is copied. */
static PyObject *traced_copy(PyObject *self, PyObject *unused)
{
	(void)unused;
	Py_INCREF(self);
	return self;
}

static PyMemberDef traced_members[] = {
	{ "__vectorcalloffset__", T_PYSSIZET, offsetof(struct traced, vectorcall), READONLY, NULL },
	{ "__dictoffset__", T_PYSSIZET, offsetof(struct traced, dict), READONLY, NULL },
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct traced, weak), READONLY, NULL },
	{ 0 },
};

static PyMethodDef traced_methods[] = {
	{ "__reduce_ex__", traced_reduce, METH_O, NULL },
	{ "__copy__", traced_copy, METH_NOARGS, NULL },
	{ "__deepcopy__", traced_copy, METH_O, NULL },
	{ 0 },
};

static PyGetSetDef traced_getset[] = {
	{ "__class__", traced_class, NULL, NULL, NULL },
	{ "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
	{ 0 },
};

static PyType_Slot traced_slots[] = {
	{ Py_tp_call, traced_call },
	{ Py_tp_dealloc, traced_free },
	{ Py_tp_traverse, traced_traverse },
	{ Py_tp_clear, traced_clear },
	{ Py_tp_descr_get, traced_get },
	{ Py_tp_getattro, traced_getattr },
	{ Py_tp_repr, traced_repr },
	{ Py_tp_members, traced_members },
	{ Py_tp_methods, traced_methods },
	{ Py_tp_getset, traced_getset },
	{ 0 },
};

static PyType_Spec traced_spec = {
	.name = "pfw._core.Traced",
	.basicsize = sizeof(struct traced),
	/* A method descriptor: obj.method() calls it without an object for the bound method. */
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
		 Py_TPFLAGS_METHOD_DESCRIPTOR,
	.slots = traced_slots,
};

static PyMethodDef methods[] = {
	{ "traced", (PyCFunction)(void (*)(void))(core_fast_fn *)make, METH_FASTCALL,
	  "traced(function, name, category)" },
	{ "marked", (PyCFunction)(void (*)(void))(core_fast_fn *)make_marked, METH_FASTCALL,
	  "marked(function, name, mark, picks)" },
	{ 0 },
};

int core_add_traced(PyObject *module)
{
	PyObject *types = PyImport_ImportModule("types");

	method_type = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
	Py_XDECREF(types);
	traced_type = (PyTypeObject *)PyType_FromSpec(&traced_spec);
	if (!method_type || !traced_type)
		return -1;
	return PyModule_AddFunctions(module, methods);
}
