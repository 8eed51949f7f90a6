/* recorder/marks/torch_loader.c - an iterator of a DataLoader, seen through Python; see
 * torch_loader.h.
 *
 * The functions run in a call that Python made and that takes Python's lock when it returns, so
 * they may take it, too.  They leave no exception behind, and keep only a weak reference.
 */
#define PFW_BUILDING
#include "recorder/marks/torch_loader.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define FRAMES_MAX 12 /* between __next__() and the operator that we hear of */

#define TOLD 16u /* iterators in use; with more, some workers are reported twice */
#define WORKERS_MAX 4096

struct object; /* PyObject */

/* Functions of Python's stable ABI. */
#define FUNCTIONS(X)                                                                      \
	X(int, PyGILState_Ensure, (void))                                                 \
	X(void, PyGILState_Release, (int))                                                \
	X(struct object *, PyEval_GetFrame, (void))                                       \
	X(struct object *, PyObject_GetAttrString, (struct object *, const char *))       \
	X(struct object *, PyMapping_GetItemString, (struct object *, const char *))      \
	X(const char *, PyUnicode_AsUTF8AndSize, (struct object *, ptrdiff_t *))          \
	X(ptrdiff_t, PySequence_Size, (struct object *))                                  \
	X(struct object *, PySequence_GetItem, (struct object *, ptrdiff_t))              \
	X(long, PyLong_AsLong, (struct object *))                                         \
	X(struct object *, PyWeakref_NewRef, (struct object *, struct object *))          \
	X(struct object *, PyObject_CallObject, (struct object *, struct object *))       \
	X(void, PyErr_GetExcInfo, (struct object **, struct object **, struct object **)) \
	X(int, PyErr_GivenExceptionMatches, (struct object *, struct object *))           \
	X(void, PyErr_Fetch, (struct object **, struct object **, struct object **))      \
	X(void, PyErr_Restore, (struct object *, struct object *, struct object *))       \
	X(void, PyErr_Clear, (void))                                                      \
	X(void, Py_IncRef, (struct object *))                                             \
	X(void, Py_DecRef, (struct object *))

static struct python {
#define X(type, name, args) type(*name) args;
	FUNCTIONS(X)
#undef X
	struct object **stop_iteration, *none;
	_Atomic bool looked, known;
	_Atomic bool busy;    /* with `maker`: Python may have no lock of its own */
	struct object *maker; /* weak reference to the iterator that makes the steps */
	long told[TOLD];      /* the pid of worker 0 of iterators whose workers were told */
	pfw_loader_worker *tell;
} python;

static bool find_python(void)
{
	bool known = true;

	if (atomic_load(&python.looked))
		return atomic_load(&python.known);
#define X(type, name, args)                                  \
	*(void **)&python.name = dlsym(RTLD_DEFAULT, #name); \
	known = known && python.name;
	FUNCTIONS(X)
#undef X
	python.stop_iteration = dlsym(RTLD_DEFAULT, "PyExc_StopIteration");
	python.none = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
	atomic_store(&python.known, known && python.stop_iteration && python.none);
	atomic_store(&python.looked, true);
	return atomic_load(&python.known);
}

static bool is_next(struct object *frame)
{
	struct object *code = python.PyObject_GetAttrString(frame, "f_code"), *name = NULL;
	const char *text = NULL;
	bool is;

	if (code)
		name = python.PyObject_GetAttrString(code, "co_name");
	if (name)
		text = python.PyUnicode_AsUTF8AndSize(name, NULL);
	is = text && !strcmp(text, "__next__");
	python.Py_DecRef(name);
	python.Py_DecRef(code);
	return is;
}

/* The frame of __next__() that the calling code is in; NULL = none is near.  A new reference. */
static struct object *next_frame(void)
{
	struct object *frame = python.PyEval_GetFrame(), *back;

	python.Py_IncRef(frame);
	for (unsigned i = 0; frame && i < FRAMES_MAX && !is_next(frame); i++) {
		back = python.PyObject_GetAttrString(frame, "f_back");
		python.Py_DecRef(frame);
		frame = back;
	}
	if (frame && is_next(frame))
		return frame;
	python.Py_DecRef(frame);
	return NULL;
}

/* Its `self`.  A new reference, or NULL. */
static struct object *iterator_of(struct object *frame)
{
	struct object *locals = python.PyObject_GetAttrString(frame, "f_locals"), *self = NULL;

	if (locals)
		self = python.PyMapping_GetItemString(locals, "self");
	python.Py_DecRef(locals);
	return self;
}

/* The iterator that makes the steps: a new reference, None if it is gone, or NULL. */
static struct object *maker(void)
{
	return python.maker ? python.PyObject_CallObject(python.maker, NULL) : NULL;
}

static bool is_maker(const struct object *iterator)
{
	struct object *makes = maker();

	python.Py_DecRef(makes);
	return makes == iterator; /* its caller has a reference */
}

static void forget_maker(void)
{
	python.Py_DecRef(python.maker);
	python.maker = NULL;
}

/* Runs `look` with Python's lock and with its exception, if there is one, put aside. */
static bool with_python(bool (*look)(struct object *frame, struct object *iterator), bool otherwise)
{
	struct object *pending[3], *frame, *iterator;
	int lock;

	if (!find_python())
		return otherwise;
	lock = python.PyGILState_Ensure();
	python.PyErr_Fetch(&pending[0], &pending[1], &pending[2]);
	frame = next_frame();
	iterator = frame ? iterator_of(frame) : NULL;
	if (iterator && !atomic_exchange(&python.busy, true)) {
		otherwise = look(frame, iterator);
		atomic_store(&python.busy, false);
	}
	python.Py_DecRef(iterator);
	python.Py_DecRef(frame);
	python.PyErr_Clear();
	python.PyErr_Restore(pending[0], pending[1], pending[2]);
	python.PyGILState_Release(lock);
	return otherwise;
}

static bool asked(struct object *frame, struct object *iterator)
{
	struct object *other;

	(void)frame;
	if (is_maker(iterator))
		return true;
	other = maker();
	python.Py_DecRef(other);
	if (other && other != python.none)
		return false;
	forget_maker();
	python.maker = python.PyWeakref_NewRef(iterator, NULL);
	return true;
}

/* Whether the exception being handled is a StopIteration that this frame has raised: another may
 * be handled around the loop. */
static bool ends(struct object *frame)
{
	struct object *type, *value, *traceback, *raised_in = NULL;
	bool ends;

	python.PyErr_GetExcInfo(&type, &value, &traceback);
	if (traceback)
		raised_in = python.PyObject_GetAttrString(traceback, "tb_frame");
	ends = raised_in == frame && value &&
	       python.PyErr_GivenExceptionMatches(value, *python.stop_iteration);
	python.Py_DecRef(raised_in);
	python.Py_DecRef(type);
	python.Py_DecRef(value);
	python.Py_DecRef(traceback);
	return ends;
}

static bool exhausted(struct object *frame, struct object *iterator)
{
	if (!is_maker(iterator) || !ends(frame))
		return false;
	forget_maker();
	return true;
}

/* The pid of an iterator's worker; 0: there is none. */
static long worker_pid(struct object *workers, ptrdiff_t number)
{
	struct object *worker = python.PySequence_GetItem(workers, number), *pid = NULL;
	long found = 0;

	if (worker)
		pid = python.PyObject_GetAttrString(worker, "pid");
	if (pid && pid != python.none)
		found = python.PyLong_AsLong(pid);
	python.Py_DecRef(pid);
	python.Py_DecRef(worker);
	python.PyErr_Clear();
	return found > 0 ? found : 0;
}

/* Each new iterator has new processes, unless the loader keeps its workers. */
static bool tell_workers(struct object *frame, struct object *iterator)
{
	struct object *workers = python.PyObject_GetAttrString(iterator, "_workers");
	ptrdiff_t count = workers ? python.PySequence_Size(workers) : 0;
	long first = count > 0 ? worker_pid(workers, 0) : 0;
	long *told = &python.told[(unsigned long)first % TOLD];

	(void)frame;
	for (ptrdiff_t i = 0; first && *told != first && i < count && i < WORKERS_MAX; i++)
		python.tell(i ? worker_pid(workers, i) : first, (uint64_t)i);
	*told = first ? first : *told;
	python.Py_DecRef(workers);
	return true;
}

void pfw_torch_loader_workers(pfw_loader_worker *tell)
{
	python.tell = tell;
	with_python(tell_workers, true);
}

bool pfw_torch_loader_asked(void)
{
	return with_python(asked, true);
}

bool pfw_torch_loader_exhausted(void)
{
	return with_python(exhausted, false);
}
