/* events.c - events that are over when they are told: instants, counters, finished spans, compute
 * events. */
#include "core.h"

#include <stddef.h>
#include <time.h>

/* Write an event that is over, with the keywords that are not in `words` as its args. */
static void put_over(const char *name, const char *category, uint64_t ts, uint64_t dur,
		     const struct core_words *words, PyObject *const *keywords, PyObject *names)
{
	struct pfw_span span;

	pfw_span_begin(&span, name, category);
	for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++) {
		PyObject *word = PyTuple_GetItem(names, i);

		if (core_find_word(words, word) < 0)
			core_span_arg(&span, word, keywords[i]);
	}
	pfw_span_end_as(&span, ts, dur);
}

/* instant(name, category=None, **args) */
static PyObject *instant(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	static const char *const words[] = { "name", "category", NULL };
	static const struct core_words instant_words = { "instant", words, 2, 1, true };
	PyObject *value[2], *made[2] = { NULL, NULL };
	const char *name, *category = NULL;
	struct timespec now;

	(void)self;
	if (!core_parse(&instant_words, args, count, names, value))
		return NULL;
	name = core_text(value[0], &made[0]);
	if (name && value[1] && value[1] != Py_None)
		category = core_text(value[1], &made[1]);
	if (!PyErr_Occurred() && !names)
		pfw_instant(name, category);
	if (!PyErr_Occurred() && names && clock_gettime(CLOCK_REALTIME, &now) == 0)
		put_over(name, category, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
			 PFW_INSTANT, &instant_words, args + count, names);
	Py_XDECREF(made[0]);
	Py_XDECREF(made[1]);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

/* counter(name, value, series): the parts have been checked by Python's side. */
static PyObject *counter(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	PyObject *made[2] = { NULL, NULL };
	const char *name, *series;
	double value;

	(void)self;
	if (count != 3) {
		PyErr_SetString(PyExc_TypeError, "counter() takes name, series, value");
		return NULL;
	}
	name = core_text(args[0], &made[0]);
	series = name ? core_text(args[1], &made[1]) : NULL;
	value = series ? PyFloat_AsDouble(args[2]) : 0;
	if (series && PyErr_Occurred())
		PyErr_Format(PyExc_TypeError, "counter(%R, %S=%R): want a number", args[0], args[1],
			     args[2]);
	if (!PyErr_Occurred())
		pfw_counter(name, series, value);
	Py_XDECREF(made[0]);
	Py_XDECREF(made[1]);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

/* A time of event(); Python's own message says neither which nor what it was. */
static uint64_t take_ns(const char *word, PyObject *value)
{
	unsigned long long ns = PyLong_Check(value) ? PyLong_AsUnsignedLongLong(value) : 0;

	if (PyErr_Occurred() || !PyLong_Check(value)) {
		PyObject *error = PyLong_Check(value) ? PyExc_OverflowError : PyExc_TypeError;

		PyErr_Clear();
		PyErr_Format(error, "event(%s=%R): want nanoseconds, an int from 0 to 2**64 - 1",
			     word, value);
	}
	return ns;
}

/* event(name, ts_ns, dur_ns, category=None, **args) */
static PyObject *event(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	static const char *const words[] = { "name", "ts_ns", "dur_ns", "category", NULL };
	static const struct core_words event_words = { "event", words, 4, 3, true };
	PyObject *value[4], *made[2] = { NULL, NULL };
	const char *name, *category = NULL;
	uint64_t ts, dur;

	(void)self;
	if (!core_parse(&event_words, args, count, names, value))
		return NULL;
	name = core_text(value[0], &made[0]);
	if (name && value[3] && value[3] != Py_None)
		category = core_text(value[3], &made[1]);
	ts = PyErr_Occurred() ? 0 : take_ns("ts_ns", value[1]);
	dur = PyErr_Occurred() ? 0 : take_ns("dur_ns", value[2]);
	if (!PyErr_Occurred() && !names)
		pfw_event(name, category, ts, dur);
	else if (!PyErr_Occurred())
		put_over(name, category, ts, dur, &event_words, args + count, names);
	Py_XDECREF(made[0]);
	Py_XDECREF(made[1]);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

/* ---- compute events ---- */

enum field_type { I32, U32, I64, U64, F64, DIM3, TEXT, KIND };

/* Where a keyword goes in struct pfw_compute, and as what. */
struct field {
	const char *word;
	enum field_type type;
	uint16_t offset;
	uint64_t bit; /* 0: no optional member */
};

#define FIELD(member, type)                                                          \
	{                                                                            \
#member, type, offsetof(struct pfw_compute, member), PFW_HAS(member) \
	}
static const struct field fields[] = {
	FIELD(kind, KIND),
	FIELD(device, I32),
	FIELD(device_index, I32),
	FIELD(context, U32),
	FIELD(stream, U32),
	FIELD(correlation, U64),
	FIELD(external_id, U64),
	FIELD(span, U64),
	FIELD(step, I64),
	FIELD(grid, DIM3),
	FIELD(block, DIM3),
	FIELD(registers, U32),
	FIELD(static_smem, U64),
	FIELD(dynamic_smem, U64),
	FIELD(local_mem, U64),
	FIELD(occupancy, F64),
	FIELD(priority, I32),
	FIELD(queued, U64),
	FIELD(channel, U32),
	FIELD(graph, U64),
	FIELD(graph_node, U64),
	FIELD(cbid, U32),
	FIELD(bytes, I64),
	FIELD(copy_kind, TEXT),
	FIELD(src_kind, TEXT),
	FIELD(dst_kind, TEXT),
	FIELD(src_device, I32),
	FIELD(dst_device, I32),
	FIELD(gbps, F64),
	FIELD(wait_on_stream, U64),
	FIELD(wait_on_event, U64),
	FIELD(cpu_memory, I64),
	FIELD(device_memory_usage, I64),
	FIELD(is_remote, I64),
	FIELD(input_size, I64),
	FIELD(input_shapes, TEXT),
	FIELD(dtypes, TEXT),
	FIELD(strides, TEXT),
	FIELD(flops, U64),
	FIELD(sequence, I64),
	FIELD(fwd_tid, U64),
	FIELD(module, TEXT),
	FIELD(python_id, U64),
	FIELD(parent, U64),
	FIELD(total_cpu_percent, F64),
	FIELD(total_device_percent, F64),
	FIELD(stack, TEXT),
	FIELD(addr, U64),
	FIELD(total_allocated, I64),
	FIELD(total_reserved, I64),
	FIELD(blocks_per_sm, F64),
	{ "tid", U64, offsetof(struct pfw_compute, tid), 0 },
};
#undef FIELD
#define FIELDS (sizeof(fields) / sizeof(fields[0]))
#define TEXTS 16 /* at least as many as there are fields of type TEXT, and the name */

static PyObject *field_word[FIELDS]; /* interned: most keywords are found by comparing addresses */

struct made_texts {
	PyObject *made[TEXTS];
	unsigned count;
};

static int kind_of(PyObject *text)
{
	static const char *const kinds[] = {
#define X(name, text) text,
		PFW_KINDS(X)
#undef X
	};

	for (int i = 0; PyUnicode_Check(text) && i < PFW_KIND_COUNT; i++) {
		if (PyUnicode_CompareWithASCIIString(text, kinds[i]) == 0)
			return i;
	}
	PyErr_Format(PyExc_ValueError,
		     "compute_event() kind=%R: not cpu_op, kernel, memcpy, memset, "
		     "runtime, driver, sync, annotation, step, overhead, memory or "
		     "python_function",
		     text);
	return PFW_KIND_CPU_OP;
}

static const char *take_text(struct made_texts *texts, PyObject *value)
{
	PyObject *made;
	const char *text = core_text(value, &made);

	if (made)
		texts->made[texts->count++] = made;
	return text;
}

/* One value; an exception is left for the caller to find. */
static void take_field(const struct field *field, char *to, PyObject *value,
		       struct made_texts *texts)
{
	switch (field->type) {
	case I32:
		*(int32_t *)to = (int32_t)PyLong_AsLong(value);
		break;
	case U32:
		*(uint32_t *)to = (uint32_t)PyLong_AsUnsignedLong(value);
		break;
	case I64:
		*(int64_t *)to = PyLong_AsLongLong(value);
		break;
	case U64:
		*(uint64_t *)to = PyLong_AsUnsignedLongLong(value);
		break;
	case F64:
		*(double *)to = PyFloat_AsDouble(value);
		break;
	case KIND:
		*(enum pfw_kind *)to = (enum pfw_kind)kind_of(value);
		break;
	case TEXT:
		*(const char **)to = take_text(texts, value);
		break;
	case DIM3:
		if (!PyTuple_Check(value))
			PyErr_SetNone(PyExc_TypeError);
		else
			PyArg_ParseTuple(value, "III", (uint32_t *)to, (uint32_t *)to + 1,
					 (uint32_t *)to + 2);
		break;
	}
}

static const struct field *find_field(PyObject *word)
{
	for (size_t i = 0; i < FIELDS; i++) {
		if (field_word[i] == word)
			return &fields[i];
	}
	for (size_t i = 0; i < FIELDS; i++) {
		if (PyUnicode_CompareWithASCIIString(word, fields[i].word) == 0)
			return &fields[i];
	}
	return NULL;
}

static bool take_phase(struct pfw_compute *compute, PyObject *value)
{
	if (value == Py_None)
		return true;
	if (PyUnicode_Check(value) && !PyUnicode_CompareWithASCIIString(value, "warmup"))
		compute->phase = PFW_PHASE_WARMUP;
	else if (PyUnicode_Check(value) && !PyUnicode_CompareWithASCIIString(value, "active"))
		compute->phase = PFW_PHASE_ACTIVE;
	else
		PyErr_Format(PyExc_ValueError, "compute_event() phase=%R: not warmup or active",
			     value);
	return !PyErr_Occurred();
}

/* Python's own messages say neither which argument it was nor its value. */
static void say_wanted(const struct field *field, PyObject *value)
{
	static const char *const wanted[] = { [I32] = "an int",	  [U32] = "an int from 0 on",
					      [I64] = "an int",	  [U64] = "an int from 0 on",
					      [F64] = "a number", [DIM3] = "three ints from 0 on",
					      [TEXT] = "a str",	  [KIND] = "a kind" };
	PyObject *type = PyErr_Occurred();

	if (field->type == KIND || !type)
		return;
	Py_INCREF(type);
	PyErr_Clear();
	PyErr_Format(type, "compute_event(%s=%R): want %s", field->word, value,
		     wanted[field->type]);
	Py_DECREF(type);
}

static bool take_keyword(struct pfw_compute *compute, PyObject *word, PyObject *value,
			 struct made_texts *texts)
{
	const struct field *field = find_field(word);

	if (!field && !PyUnicode_CompareWithASCIIString(word, "phase"))
		return take_phase(compute, value);
	if (!field) {
		PyErr_Format(PyExc_TypeError, "compute_event() has no argument %R", word);
		return false;
	}
	if (value == Py_None)
		return true;
	take_field(field, (char *)compute + field->offset, value, texts);
	compute->fields |= field->bit;
	say_wanted(field, value);
	return !PyErr_Occurred();
}

/* compute_event(name, ts_ns, dur_ns, **fields) */
static PyObject *compute_event(PyObject *self, PyObject *const *args, Py_ssize_t count,
			       PyObject *names)
{
	struct pfw_compute compute = { .struct_bytes = sizeof(compute) };
	Py_ssize_t named = names ? PyTuple_Size(names) : 0;
	struct made_texts texts = { .count = 0 };
	int error = 0;

	(void)self;
	if (count != 3) {
		PyErr_SetString(PyExc_TypeError,
				"compute_event() takes name, ts_ns and dur_ns by position");
		return NULL;
	}
	compute.name = take_text(&texts, args[0]);
	if (compute.name)
		compute.ts_ns = PyLong_AsUnsignedLongLong(args[1]);
	if (!PyErr_Occurred())
		compute.dur_ns = PyLong_AsUnsignedLongLong(args[2]);
	for (Py_ssize_t i = 0; !PyErr_Occurred() && i < named; i++)
		take_keyword(&compute, PyTuple_GetItem(names, i), args[count + i], &texts);
	if (!PyErr_Occurred())
		error = pfw_compute_event(&compute);
	while (texts.count)
		Py_DECREF(texts.made[--texts.count]);
	return PyErr_Occurred() ? NULL : PyLong_FromLong(error);
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(core_keywords_fn *)function
static PyMethodDef methods[] = {
	{ "instant", KEYWORDS(instant), METH_FASTCALL | METH_KEYWORDS, NULL },
	{ "counter", (PyCFunction)(void (*)(void))(core_fast_fn *)counter, METH_FASTCALL, NULL },
	{ "event", KEYWORDS(event), METH_FASTCALL | METH_KEYWORDS, NULL },
	{ "compute_event", KEYWORDS(compute_event), METH_FASTCALL | METH_KEYWORDS, NULL },
	{ 0 },
};

int core_add_events(PyObject *module)
{
	for (size_t i = 0; i < FIELDS; i++) {
		field_word[i] = PyUnicode_InternFromString(fields[i].word);
		if (!field_word[i])
			return -1;
	}
	return PyModule_AddFunctions(module, methods);
}
