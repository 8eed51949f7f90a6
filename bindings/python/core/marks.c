/* marks.c - the type Mark: a name and a category under which somebody records, and the arguments that
 * its events carry from now on.  What DFTracer's dft_fn is made of. */
#include "core.h"

#include <stddef.h>
#include <structmember.h>
#include <time.h>

/* A block that is entered: a mark may be so several times, by threads, tasks and itself. */
struct mark_block {
	struct mark_block *next; /* entered before it */
	unsigned long thread;
	struct core_open in;
};

struct core_mark {
	PyObject_HEAD PyObject *name, *category; /* str */
	PyObject *ints, *floats, *strings;	 /* dicts of values, or of (anything, value) */
	char enable;
	bool again;		   /* reset in a block that had been flushed: it ends once more */
	uint64_t since_ns;	   /* made or reset then */
	struct mark_block *blocks; /* the newest first */
};

static PyTypeObject *mark_type;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- arguments ---- */

/* The values that a decorated function's own arguments have; see core_mark_take(). */
static bool is_picked(PyObject *picks, PyObject *key)
{
	Py_ssize_t count = picks ? PyTuple_Size(picks) : 0;

	for (Py_ssize_t i = 0; i < count; i++) {
		if (PyTuple_GetItem(PyTuple_GetItem(picks, i), 0) == key)
			return true;
	}
	return false;
}

static bool has_any(PyObject *dict)
{
	return dict && PyDict_Check(dict) && PyDict_Size(dict);
}

static void put_dict(struct pfw_span *span, PyObject *dict, PyObject *but)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;

	if (!has_any(dict))
		return;
	while (PyDict_Next(dict, &at, &key, &value)) {
		if (is_picked(but, key))
			continue;
		if (PyTuple_Check(value) && PyTuple_Size(value) == 2)
			value = PyTuple_GetItem(value, 1);
		core_span_arg(span, key, value);
	}
}

void core_mark_args(const struct core_mark *mark, struct pfw_span *span, PyObject *picks)
{
	PyObject *type, *value, *trace;

	if (!has_any(mark->ints) && !has_any(mark->floats) && !has_any(mark->strings))
		return;
	PyErr_Fetch(&type, &value, &trace); /* of a function that has failed */
	put_dict(span, mark->ints, picks);
	put_dict(span, mark->floats, picks);
	put_dict(span, mark->strings, picks);
	PyErr_Restore(type, value, trace);
}

bool core_mark_on(const struct core_mark *mark)
{
	return mark->enable && pfw_enabled();
}

const char *core_mark_category(const struct core_mark *mark)
{
	return mark->category ? PyUnicode_AsUTF8AndSize(mark->category, NULL) : NULL;
}

/* What the call gives an argument: by keyword, by position, or its default; borrowed, or NULL. */
static PyObject *find_value(PyObject *pick, PyObject *const *args, Py_ssize_t count,
			    PyObject *names)
{
	Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GetItem(pick, 1));
	Py_ssize_t named = names ? PyTuple_Size(names) : 0;
	PyObject *word = PyTuple_GetItem(pick, 0);

	for (Py_ssize_t i = 0; i < named; i++) {
		PyObject *name = PyTuple_GetItem(names, i);

		if (name == word || PyUnicode_Compare(name, word) == 0)
			return args[count + i];
	}
	return at < count ? args[at] : PyTuple_GetItem(pick, 2);
}

/* Not in the limited API before 3.13, or not at all: an attribute that is not there without the exception
 * for it, which takes ten times as long. */
extern int PyObject_GetOptionalAttr(PyObject *object, PyObject *name, PyObject **value)
	__attribute__((weak));
extern int _PyObject_LookupAttr(PyObject *object, PyObject *name, PyObject **value)
	__attribute__((weak));

static PyObject *find_attribute(PyObject *object, PyObject *name)
{
	PyObject *value = NULL;

	if (PyObject_GetOptionalAttr)
		PyObject_GetOptionalAttr(object, name, &value);
	else if (_PyObject_LookupAttr)
		_PyObject_LookupAttr(object, name, &value);
	else
		value = PyObject_GetAttr(object, name);
	return value;
}

static PyObject *dict_of(const struct core_mark *mark, PyObject *pick)
{
	PyObject *dict = PyTuple_GetItem(pick, 3) == Py_True ? mark->floats : mark->ints;

	return dict && PyDict_Check(dict) ? dict : NULL;
}

/* Put a call's own value into a dict of the mark.  What update() had put there comes back behind the call;
 * what another call had put there (the 1) does not, as that call may be over then. */
static void put_taken(struct core_taken *taken, PyObject *dict, PyObject *word, PyObject *number)
{
	PyObject *before = PyDict_GetItem(dict, word);
	bool mine = before && PyTuple_Check(before) && PyTuple_Size(before) == 2;
	PyObject *tag = mine ? PyTuple_GetItem(before, 0) : NULL;

	mine = tag && PyLong_Check(tag) && PyLong_AsLong(tag) == 1;
	taken->before = mine ? NULL : Py_XNewRef(before);
	taken->pair = Py_BuildValue("(iO)", 1, number);
	if (taken->pair)
		PyDict_SetItem(dict, word, taken->pair);
}

/* One pick is (word, position, default, whether it is a float); position -1: the attribute of that name
 * of the first argument. */
static void take_one(struct core_mark *mark, struct pfw_span *span, PyObject *pick,
		     PyObject *const *args, Py_ssize_t count, PyObject *names,
		     struct core_taken *taken)
{
	bool is_float = PyTuple_GetItem(pick, 3) == Py_True;
	PyObject *dict = dict_of(mark, pick), *value, *number;
	PyObject *word = PyTuple_GetItem(pick, 0);

	if (PyLong_AsLong(PyTuple_GetItem(pick, 1)) < 0) {
		value = count ? find_attribute(args[0], word) : NULL;
	} else {
		value = find_value(pick, args, count, names);
		Py_XINCREF(value);
	}
	number = !value || value == Py_None ? NULL
		 : is_float		    ? PyNumber_Float(value)
					    : PyNumber_Long(value);
	if (number) {
		core_span_arg(span, word, number);
		if (dict)
			put_taken(taken, dict, word, number);
	}
	Py_XDECREF(number);
	Py_XDECREF(value);
	PyErr_Clear();
}

void core_mark_take(struct core_mark *mark, struct pfw_span *span, PyObject *picks,
		    PyObject *const *args, Py_ssize_t count, PyObject *names,
		    struct core_taken taken[CORE_PICKS])
{
	Py_ssize_t picked = PyTuple_Size(picks);

	for (Py_ssize_t i = 0; i < picked && i < CORE_PICKS; i++) {
		taken[i] = (struct core_taken){ NULL, NULL };
		take_one(mark, span, PyTuple_GetItem(picks, i), args, count, names, &taken[i]);
	}
}

static void give_one(const struct core_mark *mark, PyObject *pick, struct core_taken *taken)
{
	PyObject *dict = dict_of(mark, pick), *word = PyTuple_GetItem(pick, 0);

	if (taken->pair && dict && PyDict_GetItem(dict, word) == taken->pair) {
		if (taken->before)
			PyDict_SetItem(dict, word, taken->before);
		else
			PyDict_DelItem(dict, word);
	}
	Py_XDECREF(taken->pair);
	Py_XDECREF(taken->before);
}

void core_mark_give_back(const struct core_mark *mark, PyObject *picks,
			 struct core_taken taken[CORE_PICKS])
{
	Py_ssize_t picked = PyTuple_Size(picks);
	PyObject *type, *value, *trace;

	PyErr_Fetch(&type, &value, &trace); /* of a function that has failed */
	for (Py_ssize_t i = 0; i < picked && i < CORE_PICKS; i++)
		give_one(mark, PyTuple_GetItem(picks, i), &taken[i]);
	PyErr_Restore(type, value, trace);
}

/* ---- blocks ---- */

static void begin_block(struct core_mark *mark)
{
	const char *name = mark->name ? PyUnicode_AsUTF8AndSize(mark->name, NULL) : NULL;
	struct mark_block *block = name ? PyMem_Malloc(sizeof(*block)) : NULL;

	PyErr_Clear();
	if (!block)
		return;
	block->thread = PyThread_get_thread_ident();
	core_begin(&block->in, name, core_mark_category(mark), CORE_BLOCK);
	core_enter(&block->in, CORE_BLOCK);
	block->next = mark->blocks;
	mark->blocks = block;
}

/* Take out the block that the running code is in: its innermost span is that block's.  Else the newest
 * one of the thread, else of any: start() here and stop() there is allowed. */
static struct mark_block *take_block(struct core_mark *mark)
{
	struct mark_block **of_thread = NULL, **found = NULL, **at, *block;
	unsigned long thread = PyThread_get_thread_ident();
	uint64_t id = mark->blocks ? core_current() : 0;

	for (at = &mark->blocks; *at && !found; at = &(*at)->next) {
		if ((*at)->in.id == id)
			found = at;
		else if (!of_thread && (*at)->thread == thread)
			of_thread = at;
	}
	if (!found)
		found = of_thread ? of_thread : &mark->blocks;
	block = *found;
	if (block)
		*found = block->next;
	return block;
}

static void end_block(struct core_mark *mark, struct mark_block *block, PyObject *error)
{
	PyObject *key = error ? PyUnicode_InternFromString("error") : NULL;
	PyObject *name = key ? PyObject_GetAttrString(error, "__name__") : NULL;

	core_mark_args(mark, &block->in.span, NULL);
	if (name)
		core_span_arg(&block->in.span, key, name);
	Py_XDECREF(name);
	Py_XDECREF(key);
	PyErr_Clear();
	core_leave(&block->in, CORE_BLOCK);
	core_end(&block->in);
	PyMem_Free(block);
}

static void drop_block(struct mark_block *block)
{
	core_leave(&block->in, CORE_BLOCK);
	pfw_span_drop(&block->in.span);
	PyMem_Free(block);
}

/* An event that reaches from the mark's making, or its reset, to now. */
static void put_since(struct core_mark *mark)
{
	const char *name = mark->name ? PyUnicode_AsUTF8AndSize(mark->name, NULL) : NULL;
	uint64_t now = now_ns();
	struct pfw_span span;

	PyErr_Clear();
	if (!name || !mark->since_ns)
		return;
	pfw_span_begin(&span, name, core_mark_category(mark));
	core_mark_args(mark, &span, NULL);
	pfw_span_end_as(&span, mark->since_ns, now > mark->since_ns ? now - mark->since_ns : 0);
}

static PyObject *mark_self(struct core_mark *mark)
{
	Py_INCREF((PyObject *)mark);
	return (PyObject *)mark;
}

static PyObject *mark_enter(struct core_mark *mark, PyObject *unused)
{
	(void)unused;
	mark->again = false;
	if (core_mark_on(mark))
		begin_block(mark);
	return mark_self(mark);
}

static PyObject *mark_exit(struct core_mark *mark, PyObject *const *args, Py_ssize_t count)
{
	struct mark_block *block = take_block(mark);

	if (block)
		end_block(mark, block, count && args[0] != Py_None ? args[0] : NULL);
	else if (mark->again && core_mark_on(mark))
		put_since(mark);
	mark->again = false;
	Py_RETURN_NONE;
}

static PyObject *mark_flush(struct core_mark *mark, PyObject *unused)
{
	struct mark_block *block = take_block(mark);

	(void)unused;
	if (block)
		end_block(mark, block, NULL);
	else if (core_mark_on(mark))
		put_since(mark);
	mark->again = false;
	return mark_self(mark);
}

static PyObject *mark_reset(struct core_mark *mark, PyObject *unused)
{
	struct mark_block *block = take_block(mark);

	(void)unused;
	if (block) {
		drop_block(block);
		begin_block(mark);
	} else {
		mark->again = true;
		mark->since_ns = now_ns();
	}
	return mark_self(mark);
}

/* ---- the type ---- */

static int mark_init(struct core_mark *mark, PyObject *args, PyObject *keywords)
{
	PyObject *name, *category;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "UU:Mark", &name, &category))
		return -1;
	Py_XDECREF(mark->name);
	Py_XDECREF(mark->category);
	mark->name = Py_NewRef(name);
	mark->category = Py_NewRef(category);
	Py_XDECREF(mark->ints);
	Py_XDECREF(mark->floats);
	Py_XDECREF(mark->strings);
	mark->ints = PyDict_New();
	mark->floats = PyDict_New();
	mark->strings = PyDict_New();
	mark->enable = 1;
	mark->since_ns = now_ns();
	return mark->ints && mark->floats && mark->strings ? 0 : -1;
}

static int mark_traverse(struct core_mark *mark, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE((PyObject *)mark));
	Py_VISIT(mark->ints);
	Py_VISIT(mark->floats);
	Py_VISIT(mark->strings);
	return 0;
}

static int mark_clear(struct core_mark *mark)
{
	Py_CLEAR(mark->ints);
	Py_CLEAR(mark->floats);
	Py_CLEAR(mark->strings);
	return 0;
}

static void mark_free(struct core_mark *mark)
{
	PyTypeObject *type = Py_TYPE((PyObject *)mark);
	struct mark_block *block;

	PyObject_GC_UnTrack(mark);
	while ((block = mark->blocks)) {
		mark->blocks = block->next;
		drop_block(block);
	}
	mark_clear(mark);
	Py_XDECREF(mark->name);
	Py_XDECREF(mark->category);
	PyObject_GC_Del(mark);
	Py_DECREF(type);
}

bool core_is_mark(PyObject *object)
{
	return PyType_IsSubtype(Py_TYPE(object), mark_type);
}

#define MEMBER(name, field, type)                                      \
	{                                                              \
		name, type, offsetof(struct core_mark, field), 0, NULL \
	}
static PyMemberDef mark_members[] = {
	MEMBER("_name", name, T_OBJECT),
	MEMBER("_cat", category, T_OBJECT),
	MEMBER("_arguments_int", ints, T_OBJECT),
	MEMBER("_arguments_float", floats, T_OBJECT),
	MEMBER("_arguments_string", strings, T_OBJECT),
	MEMBER("_enable", enable, T_BOOL),
	{ 0 },
};

#define CAST(function) (PyCFunction)(void (*)(void))(function)
static PyMethodDef mark_methods[] = {
	{ "__enter__", CAST(mark_enter), METH_NOARGS, NULL },
	{ "__exit__", CAST(mark_exit), METH_FASTCALL, NULL },
	{ "flush", CAST(mark_flush), METH_NOARGS, "Write the event now; what follows is another." },
	{ "reset", CAST(mark_reset), METH_NOARGS, "Let the event begin now." },
	{ 0 },
};

static PyType_Slot mark_slots[] = {
	{ Py_tp_new, PyType_GenericNew }, { Py_tp_init, mark_init },
	{ Py_tp_dealloc, mark_free },	  { Py_tp_traverse, mark_traverse },
	{ Py_tp_clear, mark_clear },	  { Py_tp_members, mark_members },
	{ Py_tp_methods, mark_methods },  { 0 },
};

static PyType_Spec mark_spec = {
	.name = "pfw._core.Mark",
	.basicsize = sizeof(struct core_mark),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
	.slots = mark_slots,
};

/* ---- what is over ---- */

/* finished(name, category, ts_ns, dur_ns, *dicts): dur_ns < 0: a moment. */
static PyObject *finished(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	PyObject *made[2] = { NULL, NULL };
	const char *name, *category;
	long long ts, dur;
	struct pfw_span span;

	(void)self;
	if (count < 4) {
		PyErr_SetString(PyExc_TypeError,
				"finished() takes name, category, ts_ns, dur_ns and dicts");
		return NULL;
	}
	name = core_text(args[0], &made[0]);
	category = name ? core_text(args[1], &made[1]) : NULL;
	ts = category ? PyLong_AsLongLong(args[2]) : 0;
	dur = PyErr_Occurred() ? 0 : PyLong_AsLongLong(args[3]);
	if (!PyErr_Occurred()) {
		pfw_span_begin(&span, name, category);
		for (Py_ssize_t i = 4; i < count; i++)
			put_dict(&span, args[i], NULL);
		pfw_span_end_as(&span, ts < 0 ? 0 : (uint64_t)ts,
				dur < 0 ? PFW_INSTANT : (uint64_t)dur);
	}
	Py_XDECREF(made[0]);
	Py_XDECREF(made[1]);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{ "finished", CAST((core_fast_fn *)finished), METH_FASTCALL, NULL },
	{ 0 },
};

int core_add_marks(PyObject *module)
{
	mark_type = (PyTypeObject *)PyType_FromSpec(&mark_spec);
	if (!mark_type || PyModule_AddObjectRef(module, "Mark", (PyObject *)mark_type))
		return -1;
	return PyModule_AddFunctions(module, methods);
}
