/* nvtx.c - ranges and marks that the program makes through NVTX, as spans of cat PP.
 *
 * NVTX has no code of its own: its header calls through a table of addresses, which the first call
 * lets the tool of NVTX_INJECTION64_PATH fill in.  Pushed ranges stand on a stack of their thread,
 * whatever their domain; started ones, which any thread may end, in one table of the process.
 */
#define PFW_BUILDING
#include "nvtx.h"

#include <pfw/pfw.h>

#include <string.h>

#include "api.h"
#include "cupti_places.h"
#include "nvtx_names.h"
#include "probe.h"
#include "span.h"

static const char nameless[] = "(no message)";
#define NO_TRACKING (-2) /* what NVTX itself says where no tool counts the depth */

/* What marks a name as one of this kind, in pfw_nvtx_name.of. */
static const char strings, domains;

/* What the program says of a range or a mark. */
struct said {
	const struct pfw_nvtx_name *domain;
	const struct pfw_nvtx_attributes *attributes; /* NULL: only a message */
	const char *message;
};

/* ---- as a span ---- */

static const char *message_of(const struct said *said, char wide[PFW_NVTX_TEXT_BYTES])
{
	const struct pfw_nvtx_attributes *attributes = said->attributes;
	const char *text = said->message;

	if (!attributes)
		return text ? text : nameless;
	switch (attributes->message_type) {
	case PFW_NVTX_MESSAGE_TEXT:
		text = attributes->message.text;
		break;
	case PFW_NVTX_MESSAGE_WIDE:
		text = pfw_nvtx_narrow(wide, attributes->message.wide);
		break;
	case PFW_NVTX_MESSAGE_REGISTERED:
		if (attributes->message.registered)
			text = ((const struct pfw_nvtx_name *)attributes->message.registered)->text;
		break;
	}
	return text ? text : nameless;
}

static void add_payload(struct pfw_span *span, const struct pfw_nvtx_attributes *attributes)
{
	switch (attributes->payload_type) {
	case PFW_NVTX_PAYLOAD_U64:
		pfw_api_arg_u64(span, "payload", attributes->payload.u64);
		break;
	case PFW_NVTX_PAYLOAD_I64:
		pfw_span_arg_int(span, "payload", attributes->payload.i64);
		break;
	case PFW_NVTX_PAYLOAD_F64:
		pfw_span_arg_double(span, "payload", attributes->payload.f64);
		break;
	case PFW_NVTX_PAYLOAD_U32:
		pfw_span_arg_int(span, "payload", attributes->payload.u32);
		break;
	case PFW_NVTX_PAYLOAD_I32:
		pfw_span_arg_int(span, "payload", attributes->payload.i32);
		break;
	case PFW_NVTX_PAYLOAD_F32:
		pfw_span_arg_double(span, "payload", (double)attributes->payload.f32);
		break;
	}
}

static void add_color(struct pfw_span *span, uint32_t argb)
{
	char text[10] = "#";

	for (int i = 0; i < 8; i++)
		text[1 + i] = "0123456789abcdef"[argb >> (28 - 4 * i) & 15];
	text[9] = '\0';
	pfw_span_arg_str(span, "color", text);
}

static void add_attributes(struct pfw_span *span, const struct said *said)
{
	const struct pfw_nvtx_attributes *attributes = said->attributes;
	const char *name;

	if (said->domain)
		pfw_span_arg_str(span, "domain", said->domain->text);
	if (!attributes)
		return;
	if (attributes->category) {
		name = pfw_nvtx_category(said->domain, attributes->category);
		if (name)
			pfw_span_arg_str(span, "category", name);
		else
			pfw_span_arg_int(span, "category", attributes->category);
	}
	if (attributes->color_type == PFW_NVTX_COLOR_ARGB)
		add_color(span, attributes->color);
	add_payload(span, attributes);
}

/* Out of line: room for a wide message is not to be on the stack of those who push a plain one. */
static __attribute__((noinline)) void begin_full(struct pfw_span *span, const struct said *said)
{
	char wide[PFW_NVTX_TEXT_BYTES];

	pfw_annotation_begin(span, message_of(said, wide));
	if (span->state[PFW_SPAN_LIVE])
		add_attributes(span, said);
}

static inline void begin(struct pfw_span *span, const struct said *said)
{
	if (said->attributes)
		begin_full(span, said);
	else
		pfw_annotation_begin(span, said->message ? said->message : nameless);
}

static inline void finish(struct pfw_span *span)
{
	pfw_span_close(span, PFW_RECORD_ANNOTATION);
}

/* ---- pushed ranges ---- */

struct pushed {
	struct pfw_span span;
	const struct pfw_nvtx_name *domain;
	int level; /* of this domain */
	bool over; /* popped while one of another domain was above */
};

#define STACK_BYTES 65536u
#define DEPTH_MAX ((STACK_BYTES - 64) / sizeof(struct pushed) - 1)

struct pfw_nvtx_stack {
	struct pushed *top;		     /* never one that is over */
	struct pfw_nvtx_stack *next;	     /* in the list of those that no thread has */
	uint32_t beyond;		     /* pushed when it was full */
	struct pushed pushed[DEPTH_MAX + 1]; /* the first is none, and of no domain */
};
_Static_assert(sizeof(struct pfw_nvtx_stack) <= STACK_BYTES, "stack");

static const struct pfw_nvtx_name no_domain;

/* Of threads that have ended.  One at a time is taken or given: two may not follow `next` at once. */
static struct pfw_nvtx_stack *spare;
static _Atomic uint32_t spare_lock;

static bool lock_spare(void)
{
	return !atomic_exchange_explicit(&spare_lock, 1, memory_order_acquire);
}

static void unlock_spare(void)
{
	atomic_store_explicit(&spare_lock, 0, memory_order_release);
}

/* For a thread that records, since only of that do we hear when it ends.  Where another thread has the
 * list just now, a new stack is made instead of waiting for it. */
static __attribute__((noinline, cold)) struct pfw_nvtx_stack *make_stack(void)
{
	struct pfw_nvtx_stack *stack = NULL;

	if (lock_spare()) {
		stack = spare;
		if (stack)
			spare = stack->next;
		unlock_spare();
	}
	if (!stack)
		stack = pfw_os_mmap(STACK_BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack) {
		stack->beyond = 0;
		stack->top = stack->pushed;
		stack->top->domain = &no_domain;
	}
	pfw_thread.nvtx = stack;
	return stack;
}

void pfw_nvtx_thread_died(void)
{
	struct pfw_nvtx_stack *stack = pfw_thread.nvtx;

	if (!stack)
		return;
	pfw_thread.nvtx = NULL;
	if (!lock_spare()) {
		pfw_os_munmap(stack, STACK_BYTES);
		return;
	}
	stack->next = spare;
	spare = stack;
	unlock_spare();
}

/* The topmost one of a domain that is not over; NULL = none. */
static __attribute__((noinline)) struct pushed *find(struct pfw_nvtx_stack *stack,
						     const struct pfw_nvtx_name *domain)
{
	for (struct pushed *at = stack->top; at != stack->pushed; at--)
		if (at->domain == domain && !at->over)
			return at;
	return NULL;
}

static inline struct pushed *topmost(struct pfw_nvtx_stack *stack,
				     const struct pfw_nvtx_name *domain)
{
	return PFW_LIKELY(stack->top->domain == domain) ? stack->top : find(stack, domain);
}

/* The next place; the caller has looked whether there is one. */
static inline struct pushed *put_on_top(struct pfw_nvtx_stack *stack,
					const struct pfw_nvtx_name *domain)
{
	struct pushed *below = topmost(stack, domain), *pushed = stack->top + 1;

	pushed->domain = domain;
	pushed->level = below ? below->level + 1 : 0;
	pushed->over = false;
	stack->top = pushed;
	return pushed;
}

static inline bool is_full(const struct pfw_nvtx_stack *stack)
{
	return stack->top == &stack->pushed[DEPTH_MAX];
}

/* Nothing is recorded, nor looked at. */
static inline bool is_off(void)
{
	return !atomic_load_explicit(&pfw_live->api, memory_order_relaxed) &&
	       pfw_live_off(&pfw_live->api);
}

/* The first of a thread, or one too many. */
static __attribute__((noinline, cold)) int push_slow(const struct said *said)
{
	struct pfw_nvtx_stack *stack = pfw_thread.nvtx;
	struct pushed *pushed;
	struct pfw_span span;

	if (stack) {
		stack->beyond++;
		pfw_ring_count_lost(PFW_LOST_NO_MEMORY, 1);
		return NO_TRACKING;
	}
	/* Where nothing is recorded it has no place to stand; but its name may be one that changes that. */
	begin(&span, said);
	if (!span.state[PFW_SPAN_LIVE])
		return NO_TRACKING;
	stack = make_stack();
	if (!stack) {
		finish(&span);
		return NO_TRACKING;
	}
	pushed = put_on_top(stack, said->domain);
	pushed->span = span;
	return pushed->level;
}

static int push(const struct said *said)
{
	struct pfw_nvtx_stack *stack = pfw_thread.nvtx;
	struct pushed *pushed;

	if (PFW_UNLIKELY(!stack || is_full(stack)))
		return push_slow(said);
	pushed = put_on_top(stack, said->domain);
	begin(&pushed->span, said);
	return pushed->level;
}

static inline int pop(const struct pfw_nvtx_name *domain)
{
	struct pfw_nvtx_stack *stack = pfw_thread.nvtx;
	struct pushed *pushed;

	if (PFW_UNLIKELY(!stack))
		return NO_TRACKING;
	if (PFW_UNLIKELY(stack->beyond)) {
		stack->beyond--;
		return NO_TRACKING;
	}
	pushed = topmost(stack, domain);
	if (PFW_UNLIKELY(!pushed))
		return NO_TRACKING;
	finish(&pushed->span);
	pushed->over = true;
	while (stack->top->over) /* the first never is */
		stack->top--;
	return pushed->level;
}

/* ---- started ranges ---- */

/*
 * Each is a cell of one array; cells that are free make a list.  Its head holds a number that each
 * change advances, so that a cell which came back meanwhile is not taken for one that never left.  A
 * range's id is its cell and how often the cell has been used: an old id ends nothing.
 */
#define STARTED_MAX 16384u
#define CELL_BITS 16

struct started {
	struct pfw_span span;
	_Atomic uint64_t id; /* 0 = free */
	uint64_t uses;
	_Atomic uint32_t next; /* cell + 1 */
	int32_t tid;
};

static struct started *_Atomic cells;
static _Atomic uint32_t cells_used;
static _Atomic uint64_t free_cells; /* a number << 32 | cell + 1 */

static struct started *all_cells(void)
{
	struct started *all = atomic_load(&cells), *none = NULL;

	if (all)
		return all;
	all = pfw_os_mmap(STARTED_MAX * sizeof(*all), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all && !atomic_compare_exchange_strong(&cells, &none, all)) {
		pfw_os_munmap(all, STARTED_MAX * sizeof(*all));
		all = none;
	}
	return all;
}

static struct started *take_cell(void)
{
	struct started *all = all_cells();
	uint64_t head = atomic_load(&free_cells), after;
	uint32_t used;

	if (!all)
		return NULL;
	while ((uint32_t)head) {
		after = ((head >> 32) + 1) << 32 |
			atomic_load_explicit(&all[(uint32_t)head - 1].next, memory_order_relaxed);
		if (atomic_compare_exchange_weak(&free_cells, &head, after))
			return &all[(uint32_t)head - 1];
	}
	used = atomic_load(&cells_used);
	while (used < STARTED_MAX)
		if (atomic_compare_exchange_weak(&cells_used, &used, used + 1))
			return &all[used];
	return NULL;
}

static void give_cell(struct started *cell)
{
	uint32_t number = (uint32_t)(cell - atomic_load(&cells)) + 1;
	uint64_t head = atomic_load(&free_cells);

	do {
		atomic_store_explicit(&cell->next, (uint32_t)head, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak(&free_cells, &head,
					       ((head >> 32) + 1) << 32 | number));
}

static uint64_t start(const struct said *said)
{
	struct started *cell = take_cell();
	uint64_t id;

	if (!cell) {
		pfw_ring_count_lost(PFW_LOST_NO_MEMORY, 1);
		return 0;
	}
	id = ++cell->uses << CELL_BITS | ((uint64_t)(cell - atomic_load(&cells)) + 1);
	begin(&cell->span, said);
	pfw_api_aside(&cell->span);
	cell->tid = pfw_api_tid();
	atomic_store(&cell->id, id);
	return id;
}

static void end(uint64_t id)
{
	struct started *all = atomic_load(&cells), *cell;
	uint64_t number = id & ((1u << CELL_BITS) - 1);

	if (!all || !number || number > STARTED_MAX)
		return;
	cell = &all[number - 1];
	if (!atomic_compare_exchange_strong(&cell->id, &id, 0))
		return;
	/* The line is of the thread that ends it. */
	if (cell->tid && cell->tid != pfw_api_tid())
		pfw_span_arg_int(&cell->span, "started_by", cell->tid);
	finish(&cell->span);
	give_cell(cell);
}

static void mark(const struct said *said)
{
	struct pfw_span span;

	begin(&span, said);
	pfw_api_end_instant(&span);
}

/* ---- NVTX's functions ---- */

static void mark_ex(const struct pfw_nvtx_attributes *attributes)
{
	mark(&(struct said){ .attributes = attributes });
}

static void mark_text(const char *message)
{
	mark(&(struct said){ .message = message });
}

static uint64_t start_ex(const struct pfw_nvtx_attributes *attributes)
{
	return start(&(struct said){ .attributes = attributes });
}

static uint64_t start_text(const char *message)
{
	return start(&(struct said){ .message = message });
}

static int push_ex(const struct pfw_nvtx_attributes *attributes)
{
	return push(&(struct said){ .attributes = attributes });
}

/* What programs do most: nothing of `said` is made. */
static int push_text(const char *message)
{
	struct pfw_nvtx_stack *stack = pfw_thread.nvtx;
	struct pushed *pushed;

	if (PFW_UNLIKELY(!stack || is_full(stack) || !message))
		return stack || !is_off() ? push(&(struct said){ .message = message })
					  : NO_TRACKING;
	pushed = put_on_top(stack, NULL);
	pfw_annotation_begin(&pushed->span, message);
	return pushed->level;
}

static int pop_default(void)
{
	return pop(NULL);
}

static struct pfw_nvtx_attributes wide_message(const wchar_t *message)
{
	return (struct pfw_nvtx_attributes){ .message_type = PFW_NVTX_MESSAGE_WIDE,
					     .message.wide = message };
}

static void mark_wide(const wchar_t *message)
{
	const struct pfw_nvtx_attributes attributes = wide_message(message);

	mark_ex(&attributes);
}

static uint64_t start_wide(const wchar_t *message)
{
	const struct pfw_nvtx_attributes attributes = wide_message(message);

	return start_ex(&attributes);
}

static int push_wide(const wchar_t *message)
{
	const struct pfw_nvtx_attributes attributes = wide_message(message);

	return push_ex(&attributes);
}

static void name_category(uint32_t number, const char *text)
{
	if (text)
		pfw_nvtx_name_category(NULL, number, text);
}

static void name_category_wide(uint32_t number, const wchar_t *text)
{
	char buf[PFW_NVTX_TEXT_BYTES];

	name_category(number, pfw_nvtx_narrow(buf, text));
}

static void name_thread(uint32_t tid, const char *text)
{
	if (text && pfw_api_on()) /* most name themselves, before their first event */
		pfw_ring_name_thread((int32_t)tid, text);
}

static void name_thread_wide(uint32_t tid, const wchar_t *text)
{
	char buf[PFW_NVTX_TEXT_BYTES];

	name_thread(tid, pfw_nvtx_narrow(buf, text));
}

static void domain_mark_ex(const struct pfw_nvtx_name *domain,
			   const struct pfw_nvtx_attributes *attributes)
{
	mark(&(struct said){ domain, attributes, NULL });
}

static uint64_t domain_start_ex(const struct pfw_nvtx_name *domain,
				const struct pfw_nvtx_attributes *attributes)
{
	return start(&(struct said){ domain, attributes, NULL });
}

static void domain_end(const struct pfw_nvtx_name *domain, uint64_t id)
{
	(void)domain;
	end(id);
}

static int domain_push_ex(const struct pfw_nvtx_name *domain,
			  const struct pfw_nvtx_attributes *attributes)
{
	return push(&(struct said){ domain, attributes, NULL });
}

static int domain_pop(const struct pfw_nvtx_name *domain)
{
	return pop(domain);
}

static void domain_name_category(const struct pfw_nvtx_name *domain, uint32_t number,
				 const char *text)
{
	if (text)
		pfw_nvtx_name_category(domain, number, text);
}

static void domain_name_category_wide(const struct pfw_nvtx_name *domain, uint32_t number,
				      const wchar_t *text)
{
	char buf[PFW_NVTX_TEXT_BYTES];

	domain_name_category(domain, number, pfw_nvtx_narrow(buf, text));
}

static const void *register_string(const void *domain, const char *text)
{
	(void)domain; /* the same text is the same name in all */
	return text ? pfw_nvtx_name(&strings, text) : NULL;
}

static const void *register_wide(const void *domain, const wchar_t *text)
{
	char buf[PFW_NVTX_TEXT_BYTES];

	return register_string(domain, pfw_nvtx_narrow(buf, text));
}

static const void *create_domain(const char *text)
{
	return text ? pfw_nvtx_name(&domains, text) : NULL;
}

static const void *create_domain_wide(const wchar_t *text)
{
	char buf[PFW_NVTX_TEXT_BYTES];

	return create_domain(pfw_nvtx_narrow(buf, text));
}

/* ---- names of what CUDA has ---- */

static void name_device(int device, const char *text)
{
	if (text)
		pfw_cupti_name_device(device, text);
}

static void name_device_wide(int device, const wchar_t *text)
{
	char buf[PFW_NVTX_TEXT_BYTES];

	name_device(device, pfw_nvtx_narrow(buf, text));
}

static void name_context(void *context, const char *text)
{
	if (text)
		pfw_cupti_name_context(context, text);
}

static void name_context_wide(void *context, const wchar_t *text)
{
	char buf[PFW_NVTX_TEXT_BYTES];

	name_context(context, pfw_nvtx_narrow(buf, text));
}

static void name_stream(void *stream, const char *text)
{
	if (text)
		pfw_cupti_name_stream(stream, text);
}

static void name_stream_wide(void *stream, const wchar_t *text)
{
	char buf[PFW_NVTX_TEXT_BYTES];

	name_stream(stream, pfw_nvtx_narrow(buf, text));
}

/* ---- taking them over ---- */

#define F(function) ((pfw_nvtx_function *)(function))

static pfw_nvtx_function *const core[] = {
	[PFW_NVTX_MarkEx] = F(mark_ex),
	[PFW_NVTX_MarkA] = F(mark_text),
	[PFW_NVTX_MarkW] = F(mark_wide),
	[PFW_NVTX_RangeStartEx] = F(start_ex),
	[PFW_NVTX_RangeStartA] = F(start_text),
	[PFW_NVTX_RangeStartW] = F(start_wide),
	[PFW_NVTX_RangeEnd] = F(end),
	[PFW_NVTX_RangePushEx] = F(push_ex),
	[PFW_NVTX_RangePushA] = F(push_text),
	[PFW_NVTX_RangePushW] = F(push_wide),
	[PFW_NVTX_RangePop] = F(pop_default),
	[PFW_NVTX_NameCategoryA] = F(name_category),
	[PFW_NVTX_NameCategoryW] = F(name_category_wide),
	[PFW_NVTX_NameOsThreadA] = F(name_thread),
	[PFW_NVTX_NameOsThreadW] = F(name_thread_wide),
};

/* Streams of the runtime are the driver's. */
static pfw_nvtx_function *const cuda[] = {
	[PFW_NVTX_NameCuDeviceA] = F(name_device),
	[PFW_NVTX_NameCuDeviceW] = F(name_device_wide),
	[PFW_NVTX_NameCuContextA] = F(name_context),
	[PFW_NVTX_NameCuContextW] = F(name_context_wide),
	[PFW_NVTX_NameCuStreamA] = F(name_stream),
	[PFW_NVTX_NameCuStreamW] = F(name_stream_wide),
};

static pfw_nvtx_function *const cudart[] = {
	[PFW_NVTX_NameCudaDeviceA] = F(name_device),
	[PFW_NVTX_NameCudaDeviceW] = F(name_device_wide),
	[PFW_NVTX_NameCudaStreamA] = F(name_stream),
	[PFW_NVTX_NameCudaStreamW] = F(name_stream_wide),
};

static pfw_nvtx_function *const core2[] = {
	[PFW_NVTX_DomainMarkEx] = F(domain_mark_ex),
	[PFW_NVTX_DomainRangeStartEx] = F(domain_start_ex),
	[PFW_NVTX_DomainRangeEnd] = F(domain_end),
	[PFW_NVTX_DomainRangePushEx] = F(domain_push_ex),
	[PFW_NVTX_DomainRangePop] = F(domain_pop),
	[PFW_NVTX_DomainNameCategoryA] = F(domain_name_category),
	[PFW_NVTX_DomainNameCategoryW] = F(domain_name_category_wide),
	[PFW_NVTX_DomainRegisterStringA] = F(register_string),
	[PFW_NVTX_DomainRegisterStringW] = F(register_wide),
	[PFW_NVTX_DomainCreateA] = F(create_domain),
	[PFW_NVTX_DomainCreateW] = F(create_domain_wide),
};

#undef F

static bool fill_in(const struct pfw_nvtx_callbacks *callbacks, int module,
		    pfw_nvtx_function *const *functions, unsigned count)
{
	pfw_nvtx_function ***table = NULL;
	unsigned places = 0;

	if (!callbacks->module(module, &table, &places) || !table)
		return false;
	for (unsigned i = 1; i < count && i < places; i++)
		if (functions[i] && table[i])
			*table[i] = functions[i];
	return true;
}

bool pfw_nvtx_attach(pfw_nvtx_export *export)
{
	const struct pfw_nvtx_callbacks *callbacks = export(PFW_NVTX_TABLE_CALLBACKS);

	if (!callbacks || callbacks->struct_bytes < sizeof(*callbacks) ||
	    !fill_in(callbacks, PFW_NVTX_CORE, core, PFW_ARRAY_LEN(core)) ||
	    !fill_in(callbacks, PFW_NVTX_CORE2, core2, PFW_ARRAY_LEN(core2)))
		return false;
	/* Where the program has these. */
	fill_in(callbacks, PFW_NVTX_CUDA, cuda, PFW_ARRAY_LEN(cuda));
	fill_in(callbacks, PFW_NVTX_CUDART, cudart, PFW_ARRAY_LEN(cudart));
	return true;
}
