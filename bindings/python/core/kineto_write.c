/* kineto_write.c - what torch.profiler has recorded, written as compute events. */
#include "kineto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 256	  /* beyond, a backward operator does not say whose forward it is of */
#define FRAMES 512	  /* deeper calls are left out of stacks */
#define SHAPES_BYTES 3000 /* of each of shapes, dtypes, strides: with the stack below 12,000 */
#define STACK_BYTES 2500

struct text {
	char at[SHAPES_BYTES];
	size_t bytes;
	bool cut;
};

/* A Python function that is running: its name as JSON. */
struct frame {
	int64_t end_ns;
	size_t at, bytes;
};

struct writing {
	const struct kineto *kineto;
	uint64_t thread[THREADS], tid[THREADS]; /* torch's number of a thread, and the system's */
	size_t threads;
	struct frame frame[FRAMES];
	size_t frames;
	char *names;
	size_t names_bytes, names_room;
	struct text shapes, dtypes, strides, stack;
};

/* ---- JSON ---- */

static void put(struct text *text, const char *at, size_t bytes, size_t limit)
{
	if (text->cut || text->bytes + bytes + 1 > limit) {
		text->cut = true;
		return;
	}
	memcpy(text->at + text->bytes, at, bytes);
	text->bytes += bytes;
	text->at[text->bytes] = '\0';
}

static void put_int(struct text *text, PyObject *value)
{
	char digits[24], *at = digits + sizeof(digits);
	int overflow;
	long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
	unsigned long long rest = number < 0 ? 0 - (unsigned long long)number
					     : (unsigned long long)number;

	do {
		*--at = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	if (number < 0)
		*--at = '-';
	put(text, at, (size_t)(digits + sizeof(digits) - at), sizeof(text->at));
}

/* What a string must be written as within quotes; bytes, at most 6 for each of its own. */
static size_t escape(char *out, const char *text, size_t bytes)
{
	static const char hex[] = "0123456789abcdef";
	char *to = out;

	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\') {
			*to++ = '\\';
			*to++ = (char)c;
		} else if (c < 0x20) {
			memcpy(to, "\\u00", 4);
			to[4] = hex[c >> 4];
			to[5] = hex[c & 15];
			to += 6;
		} else {
			*to++ = (char)c;
		}
	}
	return (size_t)(to - out);
}

static void put_string(struct text *text, PyObject *value)
{
	char escaped[6 * 64];
	Py_ssize_t bytes = 0;
	const char *utf8 = PyUnicode_AsUTF8AndSize(value, &bytes);

	if (!utf8 || bytes > 64) {
		PyErr_Clear();
		utf8 = "?";
		bytes = 1;
	}
	put(text, "\"", 1, sizeof(text->at));
	put(text, escaped, escape(escaped, utf8, (size_t)bytes), sizeof(text->at));
	put(text, "\"", 1, sizeof(text->at));
}

/* Lists in lists of numbers and strings, as JSON: [[8,2],[]] */
static void put_value(struct text *text, PyObject *value, int depth)
{
	Py_ssize_t count;

	if (PyLong_Check(value)) {
		put_int(text, value);
	} else if (PyUnicode_Check(value)) {
		put_string(text, value);
	} else if (PyList_Check(value) && depth < 8) {
		count = PyList_Size(value);
		put(text, "[", 1, sizeof(text->at));
		for (Py_ssize_t i = 0; i < count && !text->cut; i++) {
			if (i)
				put(text, ",", 1, sizeof(text->at));
			put_value(text, PyList_GetItem(value, i), depth + 1);
		}
		put(text, "]", 1, sizeof(text->at));
	} else {
		put(text, "null", 4, sizeof(text->at));
	}
}

/* The list that a getter gives, if it is one with anything in it and not too long. */
static const char *list_text(struct writing *writing, enum kineto_getter getter, PyObject *object,
			     struct text *text, PyObject **list)
{
	*list = kineto_get(writing->kineto, getter, object);
	PyErr_Clear();
	if (!*list || !PyList_Check(*list) || PyList_Size(*list) == 0)
		return NULL;
	text->bytes = 0;
	text->cut = false;
	put_value(text, *list, 0);
	return text->cut ? NULL : text->at;
}

/* ---- Python's stack ---- */

static void leave_frames(struct writing *writing, int64_t start_ns, bool other_lane)
{
	while (writing->frames &&
	       (other_lane || writing->frame[writing->frames - 1].end_ns <= start_ns))
		writing->names_bytes = writing->frame[--writing->frames].at;
}

static void enter_frame(struct writing *writing, const struct kineto_event *event, const char *name)
{
	size_t bytes = strlen(name), room = writing->names_bytes + 6 * bytes + 2;
	struct frame *frame = &writing->frame[writing->frames];

	if (writing->frames == FRAMES)
		return;
	if (room > writing->names_room) {
		char *more = realloc(writing->names, 2 * room);

		if (!more)
			return;
		writing->names = more;
		writing->names_room = 2 * room;
	}
	frame->end_ns = event->end_ns;
	frame->at = writing->names_bytes;
	writing->names[writing->names_bytes++] = '"';
	writing->names_bytes += escape(writing->names + writing->names_bytes, name, bytes);
	writing->names[writing->names_bytes++] = '"';
	frame->bytes = writing->names_bytes - frame->at;
	writing->frames++;
}

/* The innermost first; outer ones for which there is no room are left out. */
static const char *stack_text(struct writing *writing)
{
	struct text *stack = &writing->stack;

	if (!writing->frames)
		return NULL;
	stack->bytes = 0;
	stack->cut = false;
	put(stack, "[", 1, STACK_BYTES);
	for (size_t i = writing->frames; i-- && !stack->cut;) {
		const struct frame *frame = &writing->frame[i];

		if (stack->bytes + frame->bytes + 3 > STACK_BYTES)
			break;
		if (stack->bytes > 1)
			put(stack, ",", 1, STACK_BYTES);
		put(stack, writing->names + frame->at, frame->bytes, STACK_BYTES);
	}
	put(stack, "]", 1, sizeof(stack->at));
	return stack->at;
}

/* The innermost nn.Module among them, "Linear_0"; as torch names such frames. */
static const char *module_text(struct writing *writing, char *out, size_t size)
{
	static const char word[] = "\"nn.Module: ";

	for (size_t i = writing->frames; i--;) {
		const struct frame *frame = &writing->frame[i];
		const char *name = writing->names + frame->at;
		size_t bytes = frame->bytes - sizeof(word); /* the quote behind it, too */

		if (frame->bytes > sizeof(word) && memcmp(name, word, sizeof(word) - 1) == 0 &&
		    bytes < size) {
			memcpy(out, name + sizeof(word) - 1, bytes);
			out[bytes] = '\0';
			return out;
		}
	}
	return NULL;
}

/* ---- threads ---- */

/* torch numbers threads as they come; each lane's first event says which is which. */
static void find_threads(struct writing *writing)
{
	const struct kineto *kineto = writing->kineto;
	uint64_t lane = 0;

	if (!kineto->getter[KINETO_start_thread_id])
		return;
	for (size_t i = 0; i < kineto->count && writing->threads < THREADS; i++) {
		const struct kineto_event *event = &kineto->event[i];

		if (event->on_device)
			break;
		if (event->kind != PFW_KIND_CPU_OP || (writing->threads && event->lane == lane))
			continue;
		lane = event->lane;
		writing->thread[writing->threads] = (uint64_t)kineto_int(
			kineto, KINETO_start_thread_id,
			PyList_GetItem(kineto->list, (Py_ssize_t)event->index), 0);
		writing->tid[writing->threads++] = lane;
	}
}

static uint64_t tid_of(const struct writing *writing, uint64_t thread)
{
	for (size_t i = 0; i < writing->threads; i++) {
		if (writing->thread[i] == thread)
			return writing->tid[i];
	}
	return 0;
}

/* ---- one event ---- */

/* Digits beyond these say nothing. */
static double percent(int64_t part, int64_t whole)
{
	return (double)(int64_t)(1e6 * (double)part / (double)whole + 0.5) / 1e4;
}

#define SET(member, value)                          \
	do {                                        \
		compute->member = (value);          \
		compute->fields |= PFW_HAS(member); \
	} while (0)

/* What only torch's tree of events says of an allocation. */
static void set_allocation(const struct kineto *kineto, const struct kineto_event *event,
			   struct pfw_compute *compute)
{
	PyObject *key =
		Py_BuildValue("(LL)", (long long)event->start_ns, (long long)compute->bytes);
	PyObject *found = key ? PyDict_GetItemWithError(kineto->allocations, key) : NULL;
	unsigned long long addr;
	long long allocated, reserved;

	if (found && PyArg_ParseTuple(found, "KLL", &addr, &allocated, &reserved)) {
		SET(addr, addr);
		SET(total_allocated, allocated);
		SET(total_reserved, reserved);
	}
	PyErr_Clear();
	Py_XDECREF(key);
}

static void set_device(const struct kineto *kineto, const struct kineto_event *event,
		       PyObject *object, struct pfw_compute *compute)
{
	SET(device, (int32_t)kineto_int(kineto, KINETO_device_type, object, KINETO_CUDA));
	SET(device_index, (int32_t)kineto_int(kineto, KINETO_device_index, object, 0));
	if (event->is_memory) {
		SET(bytes, kineto_int(kineto, KINETO_nbytes, object, 0));
		set_allocation(kineto, event, compute);
		compute->tid = event->lane;
		if (compute->device == KINETO_CPU)
			compute->device_index = -1;
		return;
	}
	if ((int64_t)event->lane >= 0)
		SET(stream, (uint32_t)event->lane);
	if (event->id)
		SET(correlation, event->id);
	if (event->operator_id)
		SET(external_id, event->operator_id);
	if (kineto->device_ns && event->kind != PFW_KIND_SYNC && event->kind != PFW_KIND_ANNOTATION)
		SET(total_device_percent,
		    percent(event->end_ns - event->start_ns, kineto->device_ns));
}

/* The number of dimensions of all inputs, which is what DFTracer's input_size is. */
static int64_t dimensions(PyObject *shapes)
{
	int64_t sum = 0;

	for (Py_ssize_t i = 0, count = PyList_Size(shapes); i < count; i++) {
		PyObject *shape = PyList_GetItem(shapes, i);

		sum += PyList_Check(shape) ? PyList_Size(shape) : 0;
	}
	return sum;
}

static void set_inputs(struct writing *writing, PyObject *object, struct pfw_compute *compute)
{
	PyObject *list;
	const char *text = list_text(writing, KINETO_shapes, object, &writing->shapes, &list);

	if (text)
		SET(input_shapes, text);
	SET(input_size, list && PyList_Check(list) ? dimensions(list) : 0);
	Py_XDECREF(list);
	if (!text)
		return;
	text = list_text(writing, KINETO_dtypes, object, &writing->dtypes, &list);
	if (text)
		SET(dtypes, text);
	Py_XDECREF(list);
	text = list_text(writing, KINETO_structured_input_strides, object, &writing->strides,
			 &list);
	if (text)
		SET(strides, text);
	Py_XDECREF(list);
}

static void set_operator(struct writing *writing, PyObject *object, struct pfw_compute *compute)
{
	const struct kineto *kineto = writing->kineto;
	int64_t sequence = kineto_int(kineto, KINETO_sequence_nr, object, -1);
	uint64_t forward;

	if (kineto->shapes)
		set_inputs(writing, object, compute);
	else
		SET(input_size, 0);
	if (sequence >= 0) {
		SET(sequence, sequence);
		forward = (uint64_t)kineto_int(kineto, KINETO_fwd_thread_id, object, 0);
		forward = forward ? tid_of(writing, forward) : 0;
		if (forward)
			SET(fwd_tid, forward);
	}
	if (kineto->flops) {
		int64_t flops = kineto_int(kineto, KINETO_flops, object, 0);

		if (flops > 0)
			SET(flops, (uint64_t)flops);
	}
}

static void set_times(const struct kineto *kineto, const struct kineto_event *event,
		      struct pfw_compute *compute)
{
	struct kineto_memory memory = kineto_memory_in(kineto, event->start_ns, event->end_ns);

	SET(cpu_memory, memory.cpu_bytes);
	SET(device_memory_usage, memory.device_bytes);
	SET(is_remote, 0); /* what Kineto records is never another process's */
	if (kineto->cpu_ns)
		SET(total_cpu_percent, percent(event->end_ns - event->start_ns, kineto->cpu_ns));
	if (event->device_ns)
		SET(total_device_percent, percent(event->device_ns, kineto->device_ns));
}

static void set_host(struct writing *writing, const struct kineto_event *event, PyObject *object,
		     struct pfw_compute *compute)
{
	const struct kineto *kineto = writing->kineto;

	compute->tid = event->lane;
	SET(device, KINETO_CPU);
	SET(device_index, -1);
	switch (event->kind) {
	case PFW_KIND_RUNTIME:
	case PFW_KIND_DRIVER:
		SET(correlation, event->id);
		if (event->operator_id)
			SET(external_id, event->operator_id);
		return;
	case PFW_KIND_PYTHON_FUNCTION:
		SET(python_id, (uint64_t)kineto_int(kineto, KINETO_python_id, object, 0));
		if (kineto_int(kineto, KINETO_python_parent_id, object, -1) >= 0)
			SET(parent,
			    (uint64_t)kineto_int(kineto, KINETO_python_parent_id, object, 0));
		return;
	case PFW_KIND_CPU_OP:
		set_operator(writing, object, compute);
		break;
	default:
		break;
	}
	if (event->id)
		SET(external_id, event->id);
	set_times(kineto, event, compute);
}

static bool recorded_by_cupti(uint8_t kind)
{
	return kind == PFW_KIND_KERNEL || kind == PFW_KIND_MEMCPY || kind == PFW_KIND_MEMSET ||
	       kind == PFW_KIND_RUNTIME || kind == PFW_KIND_DRIVER;
}

/* Operators and ranges are what PFW_TORCH_OPS records, too. */
static bool is_wanted(const struct kineto *kineto, const struct kineto_event *event)
{
	if (!event->on_device && !event->is_memory &&
	    (event->kind == PFW_KIND_CPU_OP || event->kind == PFW_KIND_ANNOTATION ||
	     event->kind == PFW_KIND_STEP))
		return kineto->operators;
	return kineto->others && !(kineto->gpu_since_ns && recorded_by_cupti(event->kind) &&
				   event->start_ns >= kineto->gpu_since_ns);
}

/* Return 1: written, 0: left out, -1: an exception. */
static int write_event(struct writing *writing, const struct kineto_event *event)
{
	const struct kineto *kineto = writing->kineto;
	struct pfw_compute value = { .struct_bytes = sizeof(value) }, *compute = &value;
	PyObject *object = PyList_GetItem(kineto->list, (Py_ssize_t)event->index);
	PyObject *name = kineto_get(kineto, KINETO_name, object), *made = NULL;
	char module[256];
	const char *text;
	int error;

	PyErr_Clear();
	compute->name = name ? core_text(name, &made) : NULL;
	if (!compute->name)
		compute->name = "?";
	PyErr_Clear();
	compute->ts_ns = (uint64_t)event->start_ns;
	compute->dur_ns = (uint64_t)(event->end_ns - event->start_ns);
	SET(kind, event->kind);
	if (event->step >= 0) {
		SET(step, event->step);
		compute->phase = PFW_PHASE_ACTIVE;
	}
	if (event->start_ns < kineto->active_ns)
		compute->phase = PFW_PHASE_WARMUP;
	if (event->on_device || event->is_memory)
		set_device(kineto, event, object, compute);
	else
		set_host(writing, event, object, compute);
	if (event->kind == PFW_KIND_CPU_OP && kineto->stacks) {
		text = stack_text(writing);
		if (text)
			SET(stack, text);
		text = module_text(writing, module, sizeof(module));
		if (text)
			SET(module, text);
	}
	error = is_wanted(kineto, event) ? pfw_compute_event(compute) : -ECANCELED;
	if (event->kind == PFW_KIND_PYTHON_FUNCTION && kineto->stacks)
		enter_frame(writing, event, compute->name);
	Py_XDECREF(name);
	Py_XDECREF(made);
	return error == 0;
}

int kineto_write(const struct kineto *kineto, size_t *written)
{
	struct writing *writing = calloc(1, sizeof(*writing));
	uint64_t lane = 0;
	int result = 0;

	*written = 0;
	if (!writing) {
		PyErr_NoMemory();
		return -1;
	}
	writing->kineto = kineto;
	find_threads(writing);
	for (size_t i = 0; i < kineto->count && result >= 0; i++) {
		const struct kineto_event *event = &kineto->event[i];
		leave_frames(writing, event->start_ns, event->lane != lane);
		lane = event->lane;
		result = write_event(writing, event);
		*written += result > 0;
		if ((i & 255) == 0 && PyErr_CheckSignals())
			result = -1;
	}
	free(writing->names);
	free(writing);
	return result < 0 ? -1 : 0;
}

/* ---- the function ---- */

/* kineto(events, shapes, stacks, flops, parts, active_ns, allocations, gpu_since_ns) -> how many were written */
static PyObject *kineto(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct kineto all = { 0 };
	size_t written = 0;
	long parts;
	int error;

	(void)self;
	if (count != 8 || !PyList_Check(args[0]) || !PyDict_Check(args[6])) {
		PyErr_SetString(PyExc_TypeError,
				"kineto() takes a list of events, three times True or False, "
				"which parts, when warm-up ends, a dict, and since when "
				"GPU work is recorded");
		return NULL;
	}
	all.shapes = PyObject_IsTrue(args[1]) == 1;
	all.stacks = PyObject_IsTrue(args[2]) == 1;
	all.flops = PyObject_IsTrue(args[3]) == 1;
	parts = PyLong_AsLong(args[4]);
	all.operators = parts & 1;
	all.others = parts & 2;
	all.active_ns = PyLong_AsLongLong(args[5]);
	all.gpu_since_ns = PyLong_AsLongLong(args[7]);
	if (PyErr_Occurred())
		return NULL;
	all.allocations = args[6];
	error = kineto_read(&all, args[0]);
	if (!error)
		error = kineto_write(&all, &written);
	kineto_release(&all);
	return error ? NULL : PyLong_FromSize_t(written);
}

static PyMethodDef methods[] = {
	{ "kineto", (PyCFunction)(void (*)(void))(core_fast_fn *)kineto, METH_FASTCALL, NULL },
	{ 0 },
};

int core_add_kineto(PyObject *module)
{
	return PyModule_AddFunctions(module, methods);
}
