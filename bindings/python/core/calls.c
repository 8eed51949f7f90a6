/* calls.c - a span for each call of a Python function, without a change to it. */
#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define CODES_MAX 65536u /* functions known; what is made on and on has no end */

/* Of the interpreters before 3.12, which have no sys.monitoring; in no limited API. */
typedef int profile_fn(PyObject *self, PyFrameObject *frame, int what, PyObject *arg);
extern void PyEval_SetProfile(profile_fn *function, PyObject *self) __attribute__((weak));
enum { PROFILE_CALL = 0, PROFILE_RETURN = 3 }; /* PyTrace_CALL, PyTrace_RETURN */

/* What is known of a function's code: it is looked at once. */
struct code {
	PyObject *code; /* NULL: a free place */
	PyObject *name; /* None: not wanted; NULL: to be asked again */
	const char *text;
};

/* A call in progress. */
struct call {
	struct call *outer;
	PyObject *code; /* borrowed from the table */
	uint64_t since;
	struct pfw_span span;
};

static struct {
	struct code *code; /* a hash table by address, CODES_MAX * 2 places */
	size_t count;
	PyObject *decide;  /* code -> name, or None */
	PyObject *disable; /* what says that an event is not wanted; NULL before 3.12 */
	uint64_t min_ns;
	bool on;
} calls;

struct thread {
	struct call *inner, *unused;
	bool busy; /* deciding: what runs for that is nobody's call */
};
static __thread struct thread *thread;
static pthread_key_t thread_key;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void free_calls(struct call *call)
{
	while (call) {
		struct call *outer = call->outer;

		free(call);
		call = outer;
	}
}

static void thread_ended(void *argument)
{
	struct thread *ended = argument;

	thread = NULL;
	free_calls(ended->inner);
	free_calls(ended->unused);
	free(ended);
}

static struct thread *this_thread(void)
{
	if (!thread) {
		thread = calloc(1, sizeof(*thread));
		if (thread)
			pthread_setspecific(thread_key, thread);
	}
	return thread;
}

/* ---- which functions ---- */

static struct code *place_of(PyObject *code)
{
	size_t at = ((uintptr_t)code >> 4) * 0x9e3779b97f4a7c15u % (CODES_MAX * 2);

	while (calls.code[at].code && calls.code[at].code != code)
		at = (at + 1) % (CODES_MAX * 2);
	return &calls.code[at];
}

/* The name of a function that is seen for the first time, None where it is not wanted. */
static PyObject *decide(struct thread *me, PyObject *code)
{
	PyObject *name;

	me->busy = true;
	name = PyObject_CallFunctionObjArgs(calls.decide, code, NULL);
	me->busy = false;
	if (name && (name == Py_None || PyUnicode_Check(name)))
		return name;
	PyErr_Clear();
	Py_XDECREF(name);
	Py_INCREF(Py_None);
	return Py_None;
}

/* NULL: there are too many already. */
static struct code *find_code(struct thread *me, PyObject *code)
{
	struct code *place = place_of(code);
	PyObject *name;

	if (place->name || (!place->code && calls.count == CODES_MAX))
		return place->name ? place : NULL;
	name = decide(me, code);
	place = place_of(code); /* another thread may have been here meanwhile */
	if (place->name) {
		Py_DECREF(name);
		return place;
	}
	place->text = name == Py_None ? NULL : PyUnicode_AsUTF8AndSize(name, NULL);
	PyErr_Clear();
	place->name = name;
	if (!place->code) {
		Py_INCREF(code);
		place->code = code;
		calls.count++;
	}
	return place;
}

/* ---- calls ---- */

static void begin(struct thread *me, const struct code *code)
{
	struct call *call = me->unused;

	if (call)
		me->unused = call->outer;
	else
		call = malloc(sizeof(*call));
	if (!call)
		return;
	call->code = code->code;
	call->outer = me->inner;
	me->inner = call;
	call->since = calls.min_ns ? now_ns() : 0;
	pfw_span_begin(&call->span, code->text, "python");
}

static void end_one(struct thread *me)
{
	struct call *call = me->inner;

	if (calls.min_ns && now_ns() - call->since < calls.min_ns)
		pfw_span_drop(&call->span);
	else
		pfw_span_end(&call->span);
	me->inner = call->outer;
	call->outer = me->unused;
	me->unused = call;
}

/* Ends the innermost call of that code, and what was left open in it. */
static void end(struct thread *me, PyObject *code)
{
	struct call *call = me->inner;

	while (call && call->code != code)
		call = call->outer;
	while (call && me->inner != call)
		end_one(me);
	if (call)
		end_one(me);
}

/* A function is entered.  False: nobody wants to hear of this one. */
static bool entered(PyObject *code)
{
	struct thread *me = this_thread();
	const struct code *known;

	if (!calls.on || !me || me->busy)
		return true;
	known = find_code(me, code);
	if (!known || !known->text)
		return false;
	if (pfw_enabled())
		begin(me, known);
	return true;
}

static void left(PyObject *code)
{
	if (thread && !thread->busy)
		end(thread, code);
}

/* ---- sys.monitoring's events: (code, offset, ...) ---- */

static PyObject *none_or_disable(bool wanted)
{
	PyObject *answer = wanted || !calls.disable ? Py_None : calls.disable;

	Py_INCREF(answer);
	return answer;
}

static PyObject *on_enter(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	(void)self;
	return none_or_disable(count < 1 || entered(args[0]));
}

static PyObject *on_leave(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	bool wanted = true;

	(void)self;
	if (count > 0 && calls.code && calls.on && !(thread && thread->busy)) {
		const struct code *known = place_of(args[0]);

		wanted = !known->code || known->text;
		left(args[0]);
	}
	return none_or_disable(wanted);
}

/* An exception enters or leaves a function: an event that cannot be disabled. */
static PyObject *on_throw(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	(void)self;
	if (count > 0)
		entered(args[0]);
	Py_RETURN_NONE;
}

static PyObject *on_unwind(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	(void)self;
	if (count > 0)
		left(args[0]);
	Py_RETURN_NONE;
}

/* ---- before 3.12: a profile function in each thread ---- */

static int profile(PyObject *self, PyFrameObject *frame, int what, PyObject *arg)
{
	PyObject *code;

	(void)self;
	(void)arg;
	if (!calls.on || (what != PROFILE_CALL && what != PROFILE_RETURN))
		return 0;
	code = (PyObject *)PyFrame_GetCode(frame);
	if (what == PROFILE_CALL)
		entered(code);
	else
		left(code);
	Py_DECREF(code);
	return 0;
}

/* The profile function that threading gives a new thread: it puts the real one in its place. */
static PyObject *profile_thread(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	if (PyEval_SetProfile)
		PyEval_SetProfile(calls.on ? profile : NULL, NULL);
	Py_RETURN_NONE;
}

/* calls_begin(decide, min_ns, disable): forgets what an earlier one decided */
static PyObject *calls_begin(PyObject *self, PyObject *args)
{
	unsigned long long min_ns;
	PyObject *decider, *disable;

	(void)self;
	if (!PyArg_ParseTuple(args, "OKO:calls_begin", &decider, &min_ns, &disable))
		return NULL;
	if (!calls.code) {
		calls.code = calloc(CODES_MAX * 2, sizeof(*calls.code));
		if (!calls.code || pthread_key_create(&thread_key, thread_ended))
			return PyErr_NoMemory();
	}
	for (size_t i = 0; i < CODES_MAX * 2; i++) {
		PyObject *name = calls.code[i].name;

		/* The code stays: calls in progress have it. */
		calls.code[i].name = NULL;
		calls.code[i].text = NULL;
		Py_XDECREF(name);
	}
	Py_INCREF(decider);
	Py_XDECREF(calls.decide);
	calls.decide = decider;
	Py_XDECREF(calls.disable);
	calls.disable = disable == Py_None ? NULL : disable;
	Py_XINCREF(calls.disable);
	calls.min_ns = min_ns;
	calls.on = true;
	Py_RETURN_NONE;
}

static PyObject *calls_end(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	calls.on = false;
	while (thread && thread->inner)
		end_one(thread);
	Py_RETURN_NONE;
}

#define FAST(function) (PyCFunction)(void (*)(void))(core_fast_fn *)function
static PyMethodDef methods[] = {
	{ "calls_enter", FAST(on_enter), METH_FASTCALL, NULL },
	{ "calls_leave", FAST(on_leave), METH_FASTCALL, NULL },
	{ "calls_throw", FAST(on_throw), METH_FASTCALL, NULL },
	{ "calls_unwind", FAST(on_unwind), METH_FASTCALL, NULL },
	{ "calls_profile", profile_thread, METH_VARARGS, NULL },
	{ "calls_begin", calls_begin, METH_VARARGS, NULL },
	{ "calls_end", calls_end, METH_NOARGS, NULL },
	{ 0 },
};

int core_add_calls(PyObject *module)
{
	return PyModule_AddFunctions(module, methods);
}
