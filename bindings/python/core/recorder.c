/* recorder.c - starting, stopping, steps, the schedule and what was recorded so far. */
#include "core.h"

static PyObject *hook; /* what on_trace_ready() was given */

/* Most of these wait for the writer: other threads go on meanwhile. */
#define WITHOUT_GIL(call)                                \
	({                                               \
		int result_;                             \
		Py_BEGIN_ALLOW_THREADS result_ = (call); \
		Py_END_ALLOW_THREADS result_;            \
	})

static const char *text_or_null(PyObject *text, PyObject **made)
{
	*made = NULL;
	return text && text != Py_None ? core_text(text, made) : NULL;
}

static PyObject *start(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	static const char *const words[] = { "log_file", "data_dir", "compression", "whole_us",
					     NULL };
	static const struct core_words start_words = { "start", words, 4, 0, false };
	struct pfw_options options = { .bytes = sizeof(options) };
	PyObject *value[4], *made[2];
	int error = 0;

	(void)self;
	if (!core_parse(&start_words, args, count, names, value))
		return NULL;
	options.log_file = text_or_null(value[0], &made[0]);
	options.data_dir = text_or_null(value[1], &made[1]);
	if (value[2] && value[2] != Py_None)
		options.compression = PyObject_IsTrue(value[2]) ? 1 : -1;
	options.whole_us = value[3] && PyObject_IsTrue(value[3]) == 1;
	if (!PyErr_Occurred())
		error = WITHOUT_GIL(pfw_start(&options));
	Py_XDECREF(made[0]);
	Py_XDECREF(made[1]);
	return PyErr_Occurred() ? NULL : PyLong_FromLong(error);
}

static PyObject *stop(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyLong_FromLong(WITHOUT_GIL(pfw_stop()));
}

static PyObject *flush(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyLong_FromLong(WITHOUT_GIL(pfw_flush()));
}

static PyObject *dump(PyObject *self, PyObject *args)
{
	const char *why = NULL;

	(void)self;
	if (!PyArg_ParseTuple(args, "z", &why))
		return NULL;
	return PyLong_FromLong(WITHOUT_GIL(pfw_dump(why)));
}

static PyObject *step(PyObject *self, PyObject *unused)
{
	int error = WITHOUT_GIL(pfw_step());

	(void)self;
	(void)unused;
	/* The hook may have left one. */
	return PyErr_Occurred() ? NULL : PyLong_FromLong(error);
}

static PyObject *set_rank(PyObject *self, PyObject *args)
{
	int rank, world_size;

	(void)self;
	if (!PyArg_ParseTuple(args, "ii:set_rank", &rank, &world_size))
		return NULL;
	return PyLong_FromLong(WITHOUT_GIL(pfw_set_rank(rank, world_size)));
}

static PyObject *set_schedule(PyObject *self, PyObject *args)
{
	struct pfw_schedule schedule = { 0 };

	(void)self;
	if (PyTuple_Size(args) == 0)
		return PyLong_FromLong(WITHOUT_GIL(pfw_set_schedule(NULL)));
	if (!PyArg_ParseTuple(args, "IIIIIpp:set_schedule", &schedule.skip_first, &schedule.wait,
			      &schedule.warmup, &schedule.active, &schedule.repeat,
			      &schedule.skip_first_wait, &schedule.discard_warmup))
		return NULL;
	return PyLong_FromLong(WITHOUT_GIL(pfw_set_schedule(&schedule)));
}

/* schedule_action(step, skip_first, wait, warmup, active, repeat, skip_first_wait) -> enum pfw_action */
static PyObject *schedule_action(PyObject *self, PyObject *args)
{
	struct pfw_schedule schedule = { 0 };
	unsigned long long step;

	(void)self;
	if (!PyArg_ParseTuple(args, "KIIIIIp:schedule_action", &step, &schedule.skip_first,
			      &schedule.wait, &schedule.warmup, &schedule.active, &schedule.repeat,
			      &schedule.skip_first_wait))
		return NULL;
	return PyLong_FromLong(pfw_schedule_action(&schedule, step));
}

/* In a thread that has no Python state, or whose has let go of the interpreter; an exception is said,
 * for there is nobody here to take it. */
static void call_hook(const struct pfw_segment *segment, void *user)
{
	PyGILState_STATE state = PyGILState_Ensure();
	PyObject *result, *callable = hook;

	(void)user;
	if (callable) {
		Py_INCREF(callable);
		result = PyObject_CallFunction(
			callable, "NKKKKKKKK", PyUnicode_DecodeFSDefault(segment->path),
			(unsigned long long)segment->cycle, (unsigned long long)segment->first_step,
			(unsigned long long)segment->steps, (unsigned long long)segment->step,
			(unsigned long long)segment->first_id, (unsigned long long)segment->last_id,
			(unsigned long long)segment->events, (unsigned long long)segment->lost);
		if (!result)
			PyErr_WriteUnraisable(callable);
		Py_XDECREF(result);
		Py_DECREF(callable);
	}
	PyGILState_Release(state);
}

static PyObject *on_trace_ready(PyObject *self, PyObject *callable)
{
	PyObject *old = hook;
	int error;

	(void)self;
	hook = callable == Py_None ? NULL : callable;
	Py_XINCREF(hook);
	error = WITHOUT_GIL(pfw_on_trace_ready(hook ? call_hook : NULL, NULL));
	if (error) {
		Py_XDECREF(hook);
		hook = old;
	} else {
		Py_XDECREF(old);
	}
	return PyLong_FromLong(error);
}

static PyObject *stats(PyObject *self, PyObject *unused)
{
	struct pfw_stats figures = { .struct_bytes = sizeof(figures) };

	(void)self;
	(void)unused;
	pfw_stats(&figures);
	return Py_BuildValue("KKKKKNN", (unsigned long long)figures.events,
			     (unsigned long long)figures.lost, (unsigned long long)figures.waits,
			     (unsigned long long)figures.waited_ns,
			     (unsigned long long)figures.trace_bytes,
			     PyBool_FromLong(figures.enabled),
			     PyUnicode_DecodeFSDefault(figures.path));
}

static PyObject *version(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyUnicode_FromString(pfw_version());
}

static PyObject *torch_profile(PyObject *self, PyObject *args)
{
	unsigned long long count;
	int what;

	(void)self;
	if (!PyArg_ParseTuple(args, "iK", &what, &count))
		return NULL;
	return PyLong_FromUnsignedLongLong(pfw_torch_profile((enum pfw_profile)what, count));
}

static PyMethodDef methods[] = {
	{ "start", (PyCFunction)(void (*)(void))(core_keywords_fn *)start,
	  METH_FASTCALL | METH_KEYWORDS,
	  "start(log_file=None, data_dir=None, compression=None, whole_us=False)" },
	{ "stop", stop, METH_NOARGS, NULL },
	{ "flush", flush, METH_NOARGS, NULL },
	{ "dump", dump, METH_VARARGS, "dump(why)" },
	{ "step", step, METH_NOARGS, NULL },
	{ "set_rank", set_rank, METH_VARARGS, "set_rank(rank, world_size)" },
	{ "set_schedule", set_schedule, METH_VARARGS,
	  "set_schedule([skip_first, wait, warmup, active, repeat, skip_first_wait, "
	  "discard_warmup])" },
	{ "schedule_action", schedule_action, METH_VARARGS,
	  "schedule_action(step, skip_first, wait, warmup, active, repeat, skip_first_wait)" },
	{ "on_trace_ready", on_trace_ready, METH_O, NULL },
	{ "torch_profile", torch_profile, METH_VARARGS, "torch_profile(what, count)" },
	{ "stats", stats, METH_NOARGS, NULL },
	{ "version", version, METH_NOARGS, NULL },
	{ 0 },
};

int core_add_recorder(PyObject *module)
{
	return PyModule_AddFunctions(module, methods);
}
