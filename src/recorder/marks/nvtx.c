/* recorder/marks/nvtx.c - NVTX ranges and marks of the program, as spans of cat PP.
 *
 * NVTX is only a header: it calls through a table of function addresses, and the tool named by
 * NVTX_INJECTION64_PATH fills the table at the first call.  A pushed range is on a stack of its
 * thread, whatever its domain.  A started range, which any thread may end, is in a table of the
 * process.
 */
#define PFW_BUILDING
#include "recorder/marks/nvtx.h"

#include <pfw/pfw.h>

#include <string.h>

#include "recorder/marks/api.h"
#include "recorder/marks/gpu_places.h"
#include "recorder/marks/nvtx_names.h"
#include "recorder/marks/span.h"
#include "recorder/probe/probe.h"

static const char nameless[] = "(no message)";
#define NO_TRACKING (-2) /* NVTX's own result without a tool */

/* Their addresses are the kinds of names in pfw_nvtx_name.of. */
static const char strings, domains;

/* The program's arguments for a range or a mark. */
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

/* Not inlined: a push of a plain message must not pay for a wide message's buffer on the stack. */
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
	int level; /* depth in its domain */
	bool over; /* popped while a range of another domain was above it */
};

#define STACK_BYTES 65536u
#define DEPTH_MAX ((STACK_BYTES - 64) / sizeof(struct pushed) - 1)

struct pfw_nvtx_stack {
	struct pushed *top;		     /* never a range that is over */
	struct pfw_nvtx_stack *next;	     /* in the free list */
	uint32_t beyond;		     /* ranges pushed while the stack was full */
	struct pushed pushed[DEPTH_MAX + 1]; /* [0] is a sentinel without a domain */
};
_Static_assert(sizeof(struct pfw_nvtx_stack) <= STACK_BYTES, "stack");

static const struct pfw_nvtx_name no_domain;

/* Free list: stacks of ended threads.  The lock keeps two threads from following `next` at once. */
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

/* Only for a thread that records, since only its end is reported to us.  If another thread holds
 * the free list, make a new stack instead of waiting. */
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

/* The topmost range of a domain that is not over; NULL = none. */
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

/* The next free place; the caller has checked that there is one. */
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

/* Whether recording is off for sure. */
static inline bool is_off(void)
{
	return !atomic_load_explicit(&pfw_switches->api, memory_order_relaxed) &&
	       pfw_switches_off(&pfw_switches->api);
}

/* A thread's first push, or a push onto a full stack. */
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
	/* While recording is off the range is not kept; but its name may begin a step, which
	 * switches recording. */
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
	while (stack->top->over) /* the sentinel never is */
		stack->top--;
	return pushed->level;
}

/* ---- started ranges ---- */

/*
 * Ranges are cells of one array; free cells form a list.  The list's head contains a counter that
 * each change advances (ABA).  A range's id is its cell and how often the cell was used, so a stale
 * id ends nothing.
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
static _Atomic uint64_t free_cells; /* counter << 32 | cell + 1 */

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
	/* The line is written with the thread that ends the range. */
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

/* The variants of a function that differ in how the message comes; `perform` gets a struct said. */
#define VARIANTS(type, name, perform)                                                  \
	static type domain_##name##_ex(const struct pfw_nvtx_name *domain,             \
				       const struct pfw_nvtx_attributes *attributes)   \
	{                                                                              \
		perform(&(struct said){ domain, attributes, NULL });                   \
	}                                                                              \
	static type name##_ex(const struct pfw_nvtx_attributes *attributes)            \
	{                                                                              \
		perform(&(struct said){ .attributes = attributes });                   \
	}                                                                              \
	static type name##_wide(const wchar_t *message)                                \
	{                                                                              \
		const struct pfw_nvtx_attributes attributes = {                        \
			.message_type = PFW_NVTX_MESSAGE_WIDE, .message.wide = message \
		};                                                                     \
                                                                                       \
		perform(&(struct said){ .attributes = &attributes });                  \
	}

VARIANTS(void, mark, mark)
VARIANTS(uint64_t, start, return start)
VARIANTS(int, push, return push)
#undef VARIANTS

static void mark_text(const char *message)
{
	mark(&(struct said){ .message = message });
}

static uint64_t start_text(const char *message)
{
	return start(&(struct said){ .message = message });
}

/* The most frequent call, so it builds no `struct said`. */
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

static int domain_pop(const struct pfw_nvtx_name *domain)
{
	return pop(domain);
}

static void domain_end(const struct pfw_nvtx_name *domain, uint64_t id)
{
	(void)domain;
	end(id);
}

static void domain_name_category(const struct pfw_nvtx_name *domain, uint32_t number,
				 const char *text)
{
	if (text)
		pfw_nvtx_name_category(domain, number, text);
}

static void name_category(uint32_t number, const char *text)
{
	domain_name_category(NULL, number, text);
}

static void name_thread(uint32_t tid, const char *text)
{
	if (text && pfw_api_on()) /* most threads name themselves before their first event */
		pfw_ring_name_thread((int32_t)tid, text);
}

static const void *register_string(const void *domain, const char *text)
{
	(void)domain; /* one text is one name in all domains */
	return text ? pfw_nvtx_name(&strings, text) : NULL;
}

static const void *create_domain(const char *text)
{
	return text ? pfw_nvtx_name(&domains, text) : NULL;
}

/* WIDE(type, name, (parameters), call with the text as UTF-8): the twin for a wide text. */
#define WIDE(type, name, params, perform)       \
	static type name##_wide params          \
	{                                       \
		char utf8[PFW_NVTX_TEXT_BYTES]; \
                                                \
		pfw_nvtx_narrow(utf8, text);    \
		perform;                        \
	}

WIDE(void, domain_name_category,
     (const struct pfw_nvtx_name *domain, uint32_t number, const wchar_t *text),
     domain_name_category(domain, number, utf8))
WIDE(void, name_category, (uint32_t number, const wchar_t *text), name_category(number, utf8))
WIDE(void, name_thread, (uint32_t tid, const wchar_t *text), name_thread(tid, utf8))
WIDE(void, name_device, (int device, const wchar_t *text), pfw_nvtx_name_device(device, utf8))
WIDE(void, name_context, (void *context, const wchar_t *text), pfw_nvtx_name_context(context, utf8))
WIDE(void, name_stream, (void *stream, const wchar_t *text), pfw_nvtx_name_stream(stream, utf8))
WIDE(const void *, register_string, (const void *domain, const wchar_t *text),
     return register_string(domain, utf8))
WIDE(const void *, create_domain, (const wchar_t *text), return create_domain(utf8))
#undef WIDE

/* ---- filling in NVTX's tables ---- */

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

/* The runtime's stream handles are the driver's. */
static pfw_nvtx_function *const cuda[] = {
	[PFW_NVTX_NameCuDeviceA] = F(pfw_nvtx_name_device),
	[PFW_NVTX_NameCuDeviceW] = F(name_device_wide),
	[PFW_NVTX_NameCuContextA] = F(pfw_nvtx_name_context),
	[PFW_NVTX_NameCuContextW] = F(name_context_wide),
	[PFW_NVTX_NameCuStreamA] = F(pfw_nvtx_name_stream),
	[PFW_NVTX_NameCuStreamW] = F(name_stream_wide),
};

static pfw_nvtx_function *const cudart[] = {
	[PFW_NVTX_NameCudaDeviceA] = F(pfw_nvtx_name_device),
	[PFW_NVTX_NameCudaDeviceW] = F(name_device_wide),
	[PFW_NVTX_NameCudaStreamA] = F(pfw_nvtx_name_stream),
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
	[PFW_NVTX_DomainRegisterStringW] = F(register_string_wide),
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
	/* Optional: the program may not use these modules. */
	fill_in(callbacks, PFW_NVTX_CUDA, cuda, PFW_ARRAY_LEN(cuda));
	fill_in(callbacks, PFW_NVTX_CUDART, cudart, PFW_ARRAY_LEN(cudart));
	return true;
}
