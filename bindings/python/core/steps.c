/* steps.c - the type Steps: a generator or an awaitable, in a span that is entered at each step. */
#include "core.h"

#include <time.h>

struct steps {
	PyObject_HEAD PyObject *inner;
	struct core_span_object *span;
	bool owns; /* the span ends with it, else its maker ends it */
	uint64_t busy_ns, resumes;
};

static PyTypeObject *steps_type;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void finish(struct steps *self, bool failed)
{
	if (!self->owns || !self->span->open)
		return;
	if (failed && !PyErr_ExceptionMatches(PyExc_GeneratorExit))
		core_span_error(&self->span->in.span);
	pfw_span_arg_int(&self->span->in.span, "resumes", (int64_t)self->resumes);
	pfw_span_arg_double(&self->span->in.span, "busy_us", (double)self->busy_ns / 1000);
	core_span_end(self->span);
}

static uint64_t resume(struct steps *self)
{
	core_span_begin(self->span, CORE_TURNS);
	if (self->span->open)
		core_enter(&self->span->in, CORE_TURNS);
	self->resumes++;
	return now_ns();
}

static void suspend(struct steps *self, uint64_t since)
{
	self->busy_ns += now_ns() - since;
	if (self->span->open)
		core_leave(&self->span->in, CORE_TURNS);
}

static void stop_with(PyObject *value)
{
	/* An instance of its own: a tuple would be taken for its arguments. */
	PyObject *stop = PyObject_CallFunctionObjArgs(PyExc_StopIteration, value, NULL);

	if (stop)
		PyErr_SetObject(PyExc_StopIteration, stop);
	Py_XDECREF(stop);
	Py_DECREF(value);
}

static PyObject *steps_send(struct steps *self, PyObject *value)
{
	uint64_t since = resume(self);
	PyObject *result = NULL;
	PySendResult how = PyIter_Send(self->inner, value, &result);

	suspend(self, since);
	if (how == PYGEN_NEXT)
		return result;
	finish(self, how == PYGEN_ERROR);
	if (how == PYGEN_RETURN)
		stop_with(result);
	return NULL;
}

static PyObject *steps_next(struct steps *self)
{
	return steps_send(self, Py_None);
}

/* A method of the inner one, and what it leaves: a value, or the end. */
static PyObject *pass_on(struct steps *self, const char *method, PyObject *args)
{
	uint64_t since = resume(self);
	PyObject *callable = PyObject_GetAttrString(self->inner, method);
	PyObject *result = callable ? PyObject_CallObject(callable, args) : NULL;

	Py_XDECREF(callable);
	suspend(self, since);
	return result;
}

static PyObject *steps_throw(struct steps *self, PyObject *args)
{
	PyObject *result = pass_on(self, "throw", args);

	if (!result)
		finish(self, !PyErr_ExceptionMatches(PyExc_StopIteration));
	return result;
}

static PyObject *steps_close(struct steps *self, PyObject *unused)
{
	PyObject *result = pass_on(self, "close", NULL);

	(void)unused;
	finish(self, !result);
	return result;
}

static PyObject *steps_self(PyObject *self)
{
	Py_INCREF(self);
	return self;
}

/* steps(inner, span, owns) */
static PyObject *make(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
	struct steps *self;

	(void)module;
	if (count != 3 || !core_is_span(args[1])) {
		PyErr_SetString(PyExc_TypeError, "steps() takes an iterator, a span and a bool");
		return NULL;
	}
	self = PyObject_GC_New(struct steps, steps_type);
	if (!self)
		return NULL;
	self->inner = args[0];
	Py_INCREF(self->inner);
	self->span = (struct core_span_object *)args[1];
	Py_INCREF(args[1]);
	self->owns = args[2] == Py_True;
	self->busy_ns = self->resumes = 0;
	PyObject_GC_Track(self);
	return (PyObject *)self;
}

static int steps_traverse(struct steps *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE((PyObject *)self));
	Py_VISIT(self->inner);
	return 0;
}

static void steps_free(struct steps *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);

	PyObject_GC_UnTrack(self);
	Py_DECREF(self->inner);
	if (self->owns)
		finish(self, false);
	Py_DECREF((PyObject *)self->span);
	PyObject_GC_Del(self);
	Py_DECREF(type);
}

#define CAST(function) (PyCFunction)(void (*)(void))(function)
static PyMethodDef steps_methods[] = {
	{ "send", CAST(steps_send), METH_O, NULL },
	{ "throw", CAST(steps_throw), METH_VARARGS, NULL },
	{ "close", CAST(steps_close), METH_NOARGS, NULL },
	{ 0 },
};

static PyType_Slot steps_slots[] = {
	{ Py_tp_dealloc, steps_free },
	{ Py_tp_traverse, steps_traverse },
	{ Py_tp_iter, steps_self },
	{ Py_tp_iternext, steps_next },
	{ Py_am_await, steps_self },
	{ Py_tp_methods, steps_methods },
	{ 0 },
};

static PyType_Spec steps_spec = {
	.name = "pfw._core.Steps",
	.basicsize = sizeof(struct steps),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
	.slots = steps_slots,
};

static PyMethodDef methods[] = {
	{ "steps", (PyCFunction)(void (*)(void))(core_fast_fn *)make, METH_FASTCALL,
	  "steps(inner, span, owns)" },
	{ 0 },
};

int core_add_steps(PyObject *module)
{
	steps_type = (PyTypeObject *)PyType_FromSpec(&steps_spec);
	return steps_type ? PyModule_AddFunctions(module, methods) : -1;
}
