/* kineto.c - read what torch.profiler has recorded, through the getters of its C++ objects.
 *
 * torch's own way makes a FunctionEvent of each event, which takes 40 to 130 us and kilobytes; the
 * getters take 0.1 us each.
 */
#include "kineto.h"

#include <stdlib.h>
#include <string.h>

/* ---- getters ---- */

static const char *const names[] = {
#define X(getter) #getter,
	KINETO_GETTERS(X)
#undef X
};

PyObject *kineto_get(const struct kineto *kineto, enum kineto_getter getter, PyObject *event)
{
	PyObject *method, *value;

	if (Py_TYPE(event) == kineto->type)
		return kineto->getter[getter]
			       ? PyObject_CallFunctionObjArgs(kineto->getter[getter], event, NULL)
			       : NULL;
	method = PyObject_GetAttrString(event, names[getter]);
	if (!method) {
		PyErr_Clear();
		return NULL;
	}
	value = PyObject_CallObject(method, NULL);
	Py_DECREF(method);
	return value;
}

int64_t kineto_int(const struct kineto *kineto, enum kineto_getter getter, PyObject *event,
		   int64_t otherwise)
{
	PyObject *value = kineto_get(kineto, getter, event);
	int64_t number = otherwise;
	int overflow;

	if (value && PyLong_Check(value)) {
		number = PyLong_AsLongLongAndOverflow(value, &overflow);
	} else if (value) { /* an enum of torch's */
		PyObject *plain = PyNumber_Long(value);

		if (plain)
			number = PyLong_AsLongLongAndOverflow(plain, &overflow);
		Py_XDECREF(plain);
	}
	Py_XDECREF(value);
	if (PyErr_Occurred()) {
		PyErr_Clear();
		number = otherwise;
	}
	return number;
}

static void find_getters(struct kineto *kineto, PyObject *event)
{
	kineto->type = Py_TYPE(event);
	for (int i = 0; i < KINETO_GETTER_COUNT; i++) {
		kineto->getter[i] = PyObject_GetAttrString((PyObject *)kineto->type, names[i]);
		PyErr_Clear();
	}
}

/* ---- what an event is ---- */

static bool starts_with(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

/* By libkineto's names of activities (ActivityType.cpp). */
static bool kind_of_activity(const char *activity, struct kineto_event *event)
{
	static const struct {
		const char *activity;
		uint8_t kind;
		bool on_device;
	} kinds[] = {
		{ "cpu_op", PFW_KIND_CPU_OP, false },
		{ "python_function", PFW_KIND_PYTHON_FUNCTION, false },
		{ "user_annotation", PFW_KIND_ANNOTATION, false },
		{ "cpu_instant_event", PFW_KIND_MEMORY, false },
		{ "kernel", PFW_KIND_KERNEL, true },
		{ "cuda_runtime", PFW_KIND_RUNTIME, false },
		{ "cuda_driver", PFW_KIND_DRIVER, false },
		{ "gpu_memcpy", PFW_KIND_MEMCPY, true },
		{ "gpu_memset", PFW_KIND_MEMSET, true },
		{ "gpu_user_annotation", PFW_KIND_ANNOTATION, true },
		{ "cuda_sync", PFW_KIND_SYNC, true },
		{ "overhead", PFW_KIND_OVERHEAD, false },
		{ "cuda_event", PFW_KIND_SYNC, true },
		{ "concurrent_kernel", PFW_KIND_KERNEL, true },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(activity, kinds[i].activity) == 0) {
			event->kind = kinds[i].kind;
			event->on_device = kinds[i].on_device;
			return true;
		}
	}
	return false;
}

/* The same where this torch does not say what it is (until 2.8 at least), or says what is not known. */
static void guess_kind(const struct kineto *kineto, PyObject *object, const char *name,
		       struct kineto_event *event)
{
	int64_t device = kineto_int(kineto, KINETO_device_type, object, KINETO_CPU);

	event->on_device = device != KINETO_CPU && device != KINETO_MKLDNN &&
			   device != KINETO_IDEEP;
	if (event->on_device)
		event->kind = starts_with(name, "Memcpy")   ? PFW_KIND_MEMCPY
			      : starts_with(name, "Memset") ? PFW_KIND_MEMSET
							    : PFW_KIND_KERNEL;
	else if (kineto_int(kineto, KINETO_is_python_function, object, 0))
		event->kind = PFW_KIND_PYTHON_FUNCTION;
	else if (event->operator_id && starts_with(name, "cuda"))
		event->kind = PFW_KIND_RUNTIME;
	else if (event->operator_id && starts_with(name, "cu"))
		event->kind = PFW_KIND_DRIVER;
	else
		event->kind = PFW_KIND_CPU_OP;
	/* In torch 2.1 to 2.4 only the scope of record_function() says that it is one. */
	if (kineto_int(kineto, KINETO_is_user_annotation, object, 0) ||
	    (event->kind == PFW_KIND_CPU_OP &&
	     kineto_int(kineto, KINETO_scope, object, 0) == KINETO_USER_SCOPE))
		event->kind = PFW_KIND_ANNOTATION;
}

/* The number behind "ProfilerStep#"; -1: it is none. */
static int64_t step_of(const char *name)
{
	static const char word[] = "ProfilerStep#";
	char *end;
	long long number;

	if (!starts_with(name, word))
		return -1;
	number = strtoll(name + sizeof(word) - 1, &end, 10);
	return *end || end == name + sizeof(word) - 1 ? -1 : number;
}

static void find_kind(const struct kineto *kineto, PyObject *object, struct kineto_event *event)
{
	PyObject *made[2] = { NULL, NULL };
	PyObject *activity = kineto_get(kineto, KINETO_activity_type, object);
	const char *text = activity ? core_text(activity, &made[0]) : NULL;
	bool known = text && kind_of_activity(text, event);
	PyObject *name = NULL;

	/* Most are operators, whose name does not matter yet. */
	if (!known || event->kind == PFW_KIND_ANNOTATION || event->kind == PFW_KIND_MEMORY) {
		PyErr_Clear();
		name = kineto_get(kineto, KINETO_name, object);
		text = name ? core_text(name, &made[1]) : NULL;
		if (!text)
			text = "";
		if (!known)
			guess_kind(kineto, object, text, event);
		event->is_memory = strcmp(text, "[memory]") == 0;
		if (event->is_memory)
			event->kind = PFW_KIND_MEMORY;
		event->step = event->on_device ? -1 : step_of(text);
		if (event->step >= 0)
			event->kind = PFW_KIND_STEP;
	}
	Py_XDECREF(activity);
	Py_XDECREF(name);
	Py_XDECREF(made[0]);
	Py_XDECREF(made[1]);
	PyErr_Clear();
}

static void read_event(const struct kineto *kineto, PyObject *object, struct kineto_event *event)
{
	int64_t start, dur;

	if (kineto->getter[KINETO_start_ns]) {
		start = kineto_int(kineto, KINETO_start_ns, object, 0);
		dur = kineto_int(kineto, KINETO_duration_ns, object, 0);
	} else {
		start = kineto_int(kineto, KINETO_start_us, object, 0) * 1000;
		dur = kineto_int(kineto, KINETO_duration_us, object, 0) * 1000;
	}
	event->start_ns = start > 0 ? start : 0;
	if (dur < 0 || __builtin_add_overflow(event->start_ns, dur, &event->end_ns))
		event->end_ns = event->start_ns;
	event->lane = (uint64_t)kineto_int(kineto, KINETO_device_resource_id, object, 0);
	event->id = (uint64_t)kineto_int(kineto, KINETO_correlation_id, object, 0);
	event->operator_id = (uint64_t)kineto_int(kineto, KINETO_linked_correlation_id, object, 0);
	event->parent = -1;
	event->step = -1;
	find_kind(kineto, object, event);
}

/* ---- memory ---- */

static int by_time(const void *a, const void *b)
{
	const struct kineto_memory *one = a, *other = b;

	return one->at_ns < other->at_ns ? -1 : one->at_ns > other->at_ns;
}

/* Where `at_ns` would be put among them: before those that are there at that time, or behind. */
static size_t place_of(const struct kineto *kineto, int64_t at_ns, bool behind)
{
	size_t low = 0, high = kineto->memories;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int64_t there = kineto->memory[middle].at_ns;

		if (there < at_ns || (behind && there == at_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct kineto_memory kineto_memory_in(const struct kineto *kineto, int64_t start_ns, int64_t end_ns)
{
	size_t first = place_of(kineto, start_ns, false), end = place_of(kineto, end_ns, true);
	struct kineto_memory sum = { 0 };

	if (end > first) {
		const struct kineto_memory *last = &kineto->memory[end - 1];
		const struct kineto_memory *before = first ? &kineto->memory[first - 1] : &sum;

		sum.device_bytes = last->device_bytes - before->device_bytes;
		sum.cpu_bytes = last->cpu_bytes - before->cpu_bytes;
	}
	return sum;
}

static int read_memory(struct kineto *kineto)
{
	size_t count = 0;

	for (size_t i = 0; i < kineto->count; i++)
		count += kineto->event[i].is_memory;
	if (!count)
		return 0;
	kineto->memory = calloc(count, sizeof(*kineto->memory));
	if (!kineto->memory)
		return -1;
	for (size_t i = 0; i < kineto->count; i++) {
		const struct kineto_event *event = &kineto->event[i];
		struct kineto_memory *memory = &kineto->memory[kineto->memories];
		PyObject *object;
		int64_t bytes, device;

		if (!event->is_memory)
			continue;
		object = PyList_GetItem(kineto->list, (Py_ssize_t)event->index);
		bytes = kineto_int(kineto, KINETO_nbytes, object, 0);
		device = kineto_int(kineto, KINETO_device_type, object, KINETO_CPU);
		memory->at_ns = event->start_ns;
		if (device == KINETO_CPU || device == KINETO_MKLDNN || device == KINETO_IDEEP)
			memory->cpu_bytes = bytes;
		else
			memory->device_bytes = bytes;
		kineto->memories++;
	}
	qsort(kineto->memory, count, sizeof(*kineto->memory), by_time);
	for (size_t i = 1; i < count; i++) {
		kineto->memory[i].cpu_bytes += kineto->memory[i - 1].cpu_bytes;
		kineto->memory[i].device_bytes += kineto->memory[i - 1].device_bytes;
	}
	return 0;
}

/* ---- what is inside what ---- */

static int by_lane(const void *a, const void *b)
{
	const struct kineto_event *one = a, *other = b;

	if (one->on_device != other->on_device)
		return one->on_device ? 1 : -1;
	if (one->lane != other->lane)
		return one->lane < other->lane ? -1 : 1;
	if (one->start_ns != other->start_ns)
		return one->start_ns < other->start_ns ? -1 : 1;
	if (one->end_ns != other->end_ns)
		return one->end_ns > other->end_ns ? -1 : 1;
	return one->index < other->index ? -1 : one->index > other->index;
}

/* Whether others can be inside it. */
static bool holds_others(const struct kineto_event *event)
{
	return !event->on_device && event->kind != PFW_KIND_MEMORY &&
	       event->kind != PFW_KIND_PYTHON_FUNCTION;
}

static void find_parents(struct kineto *kineto)
{
	int32_t open = -1;

	for (size_t i = 0; i < kineto->count; i++) {
		struct kineto_event *event = &kineto->event[i];

		if (event->on_device)
			break;
		while (open >= 0 && (kineto->event[open].lane != event->lane ||
				     kineto->event[open].end_ns < event->end_ns))
			open = kineto->event[open].parent;
		event->parent = open;
		if (open >= 0 && event->step < 0)
			event->step = kineto->event[open].step;
		if (open < 0 && holds_others(event))
			kineto->cpu_ns += event->end_ns - event->start_ns;
		if (holds_others(event))
			open = (int32_t)i;
	}
}

static size_t slot_of(const struct kineto *kineto, uint64_t id)
{
	return (id * 0x9e3779b97f4a7c15ull >> 32) & (kineto->table - 1);
}

const struct kineto_event *kineto_operator(const struct kineto *kineto, uint64_t id)
{
	if (!id)
		return NULL;
	for (size_t at = slot_of(kineto, id); kineto->by_operator[at];
	     at = (at + 1) & (kineto->table - 1)) {
		const struct kineto_event *event = &kineto->event[kineto->by_operator[at] - 1];

		if (event->id == id)
			return event;
	}
	return NULL;
}

/* Operators and annotations; a call's number is CUPTI's, and may be the same as an operator's. */
static bool has_number(const struct kineto_event *event)
{
	return !event->on_device && event->id &&
	       (event->kind == PFW_KIND_CPU_OP || event->kind == PFW_KIND_ANNOTATION ||
		event->kind == PFW_KIND_STEP);
}

static int number_operators(struct kineto *kineto)
{
	for (kineto->table = 64; kineto->table < 2 * kineto->count;)
		kineto->table *= 2;
	kineto->by_operator = calloc(kineto->table, sizeof(*kineto->by_operator));
	if (!kineto->by_operator)
		return -1;
	for (size_t i = 0; i < kineto->count; i++) {
		size_t at = slot_of(kineto, kineto->event[i].id);

		if (!has_number(&kineto->event[i]))
			continue;
		while (kineto->by_operator[at])
			at = (at + 1) & (kineto->table - 1);
		kineto->by_operator[at] = (uint32_t)i + 1;
	}
	return 0;
}

/* What devices did is counted to the operator that had them do it, and to all around that. */
static void count_device_time(struct kineto *kineto)
{
	for (size_t i = 0; i < kineto->count; i++) {
		struct kineto_event *event = &kineto->event[i];
		const struct kineto_event *cause = kineto_operator(kineto, event->operator_id);

		if (cause && event->step < 0)
			event->step = cause->step;
		if (!event->on_device || event->kind == PFW_KIND_ANNOTATION ||
		    event->kind == PFW_KIND_SYNC)
			continue;
		kineto->device_ns += event->end_ns - event->start_ns;
		for (int32_t at = cause ? (int32_t)(cause - kineto->event) : -1; at >= 0;
		     at = kineto->event[at].parent)
			kineto->event[at].device_ns += event->end_ns - event->start_ns;
	}
}

/* ---- all of it ---- */

int kineto_read(struct kineto *kineto, PyObject *list)
{
	Py_ssize_t count = PyList_Size(list);

	if (count < 0)
		return -1;
	kineto->list = list;
	if (count == 0)
		return 0;
	if (count >= INT32_MAX) {
		PyErr_SetString(PyExc_OverflowError, "over 2**31 events in one cycle");
		return -1;
	}
	find_getters(kineto, PyList_GetItem(list, count - 1));
	if (!kineto->getter[KINETO_name] ||
	    !(kineto->getter[KINETO_start_ns] || kineto->getter[KINETO_start_us])) {
		PyErr_SetString(PyExc_TypeError, "the events have no name() or no start");
		return -1;
	}
	kineto->event = calloc((size_t)count, sizeof(*kineto->event));
	if (!kineto->event) {
		PyErr_NoMemory();
		return -1;
	}
	for (kineto->count = 0; kineto->count < (size_t)count; kineto->count++) {
		struct kineto_event *event = &kineto->event[kineto->count];

		event->index = (uint32_t)kineto->count;
		read_event(kineto, PyList_GetItem(list, (Py_ssize_t)kineto->count), event);
	}
	qsort(kineto->event, kineto->count, sizeof(*kineto->event), by_lane);
	find_parents(kineto);
	if (read_memory(kineto) || number_operators(kineto)) {
		PyErr_NoMemory();
		return -1;
	}
	count_device_time(kineto);
	return 0;
}

void kineto_release(struct kineto *kineto)
{
	for (int i = 0; i < KINETO_GETTER_COUNT; i++)
		Py_XDECREF(kineto->getter[i]);
	free(kineto->event);
	free(kineto->memory);
	free(kineto->by_operator);
}
