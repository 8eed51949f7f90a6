/* nest.c - inside which span the code of this thread, task or generator is. */
#include "core.h"

/* Not in the limited API, and the same in all versions from 3.7.1 on. */
extern PyObject *PyContextVar_New(const char *name, PyObject *value) __attribute__((weak));
extern int PyContextVar_Get(PyObject *variable, PyObject *or_else, PyObject **value)
	__attribute__((weak));
extern PyObject *PyContextVar_Set(PyObject *variable, PyObject *value) __attribute__((weak));
extern int PyContextVar_Reset(PyObject *variable, PyObject *token) __attribute__((weak));

static __thread struct core_nest nest;
static PyObject *variable;    /* of each context: the id of its innermost span */
static PyObject *loop_module; /* "_asyncio" */
static PyObject *get_loop;    /* its _get_running_loop, once somebody has imported asyncio */

static bool find_get_loop(void)
{
	PyObject *module = PyDict_GetItemWithError(PyImport_GetModuleDict(), loop_module);

	if (module)
		get_loop = PyObject_GetAttrString(module, "_get_running_loop");
	PyErr_Clear();
	return get_loop != NULL;
}

/* The address of the event loop that runs in this thread, 0: none. */
static uintptr_t running_loop(void)
{
	PyObject *loop;

	if (!get_loop && !find_get_loop())
		return 0;
	loop = PyObject_CallNoArgs(get_loop);
	if (!loop) {
		PyErr_Clear();
		return 0;
	}
	Py_DECREF(loop);
	return loop == Py_None ? 0 : (uintptr_t)loop;
}

/* The innermost span of the running task, or what its loop runs in. */
static uint64_t of_context(void)
{
	PyObject *value = NULL;
	uint64_t id = nest.span;

	if (variable && PyContextVar_Get(variable, NULL, &value) == 0 && value) {
		id = PyLong_AsUnsignedLongLong(value);
		Py_DECREF(value);
	}
	PyErr_Clear();
	return id;
}

static PyObject *set_context(uint64_t id)
{
	PyObject *value = variable ? PyLong_FromUnsignedLongLong(id) : NULL;
	PyObject *token = value ? PyContextVar_Set(variable, value) : NULL;

	Py_XDECREF(value);
	PyErr_Clear();
	return token;
}

/* In a task whose spans nest by its context, in this thread. */
static bool by_context(uintptr_t loop)
{
	return loop && loop != nest.loop;
}

void core_begin(struct core_open *open, const char *name, const char *category, enum core_way way)
{
	uint64_t around = 0;

	open->token = NULL;
	open->entered = false;
	open->id = 0;
	if (!pfw_enabled()) {
		pfw_span_begin(&open->span, name, category); /* its name may be a step's */
		return;
	}
	open->outer.loop = running_loop();
	if (by_context(open->outer.loop))
		pfw_span_set_current(of_context());
	else if (nest.stale)
		pfw_span_set_current(nest.span);
	nest.stale = by_context(open->outer.loop);
	if (way == CORE_TURNS)
		around = pfw_span_current();
	pfw_span_begin(&open->span, name, category);
	open->id = open->inside = pfw_span_current();
	if (way == CORE_TURNS)
		pfw_span_set_current(around);
}

void core_enter(struct core_open *open, enum core_way way)
{
	uintptr_t loop;

	if (!open->id)
		return;
	loop = way == CORE_TURNS ? running_loop() : open->outer.loop;
	open->entered = true;
	if (by_context(loop) && way != CORE_CALL)
		open->token = set_context(open->inside);
	if (way == CORE_TURNS)
		open->before = pfw_span_set_current(open->inside);
	if (open->token)
		return;
	open->outer = nest;
	nest = (struct core_nest){ .loop = loop, .span = open->inside };
}

static void leave_context(struct core_open *open)
{
	PyObject *type, *value, *trace;

	PyErr_Fetch(&type, &value, &trace);
	open->inside = of_context();
	/* Fails in another context than it was set in: an asynchronous generator that is finalized. */
	PyContextVar_Reset(variable, open->token);
	PyErr_Clear();
	Py_DECREF(open->token);
	open->token = NULL;
	pfw_span_set_current(of_context());
	nest.stale = true;
	PyErr_Restore(type, value, trace);
}

void core_leave(struct core_open *open, enum core_way way)
{
	if (!open->entered)
		return;
	open->entered = false;
	if (open->token) {
		leave_context(open);
		return;
	}
	if (way == CORE_TURNS) {
		open->inside = pfw_span_current();
		nest = open->outer;
		pfw_span_set_current(open->before);
	} else if (nest.span == open->id) {
		nest = open->outer;
	}
}

uint64_t core_current(void)
{
	uintptr_t loop = running_loop();

	return loop && loop != nest.loop ? of_context() : pfw_span_current();
}

/* current() -> int: the span_id of the innermost open span, 0: none */
static PyObject *current(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyLong_FromUnsignedLongLong(core_current());
}

static PyObject *enabled(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyBool_FromLong(pfw_enabled());
}

static PyMethodDef methods[] = {
	{ "current", current, METH_NOARGS, "The span_id of the innermost open span, 0: none." },
	{ "enabled", enabled, METH_NOARGS, "Whether spans of this thread are recorded now." },
	{ 0 },
};

int core_add_nest(PyObject *module)
{
	loop_module = PyUnicode_InternFromString("_asyncio");
	if (!loop_module)
		return -1;
	if (PyContextVar_New && PyContextVar_Get && PyContextVar_Set && PyContextVar_Reset) {
		variable = PyContextVar_New("pfw span", NULL);
		if (!variable)
			return -1;
	}
	return PyModule_AddFunctions(module, methods);
}
