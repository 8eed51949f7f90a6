/* recorder/marks/torch_ops.c - PyTorch's operators without torch.profiler: see torch_ops.h. */
#define PFW_BUILDING
#include "recorder/marks/torch_ops.h"

#include <dlfcn.h>
#include <pfw/pfw.h>
#include <string.h>

#include "common/base/text.h"
#include "common/settings/config.h"
#include "recorder/gpu/cupti.h"
#include "recorder/guest/say.h"
#include "recorder/marks/api.h"
#include "recorder/marks/span.h"
#include "recorder/marks/torch_loader.h"
#include "recorder/probe/probe.h"
#include "recorder/spool/ring.h"

#define MINOR_MAX 15u /* the newest minor version of 2 that was tested */
#define DEPTH_MAX 120u

/* ---- memory layout of C++ types ---- */

struct record_function; /* at::RecordFunction */

/* A std::unique_ptr returned by value: the caller passes its address and gets that back. */
struct context_slot {
	void *context;
};
typedef struct context_slot *start_callback(struct context_slot *slot,
					    const struct record_function *function);
typedef void end_callback(const struct record_function *function, void *context);

enum scope { /* at::RecordScope */
	     SCOPE_FUNCTION,
	     SCOPE_BACKWARD_FUNCTION,
	     SCOPE_TORCHSCRIPT_FUNCTION,
	     SCOPE_KERNEL_FUNCTION_DTYPE,
	     SCOPE_CUSTOM_CLASS,
	     SCOPE_BUILD_FEATURE,
	     SCOPE_LITE_INTERPRETER,
	     SCOPE_USER,
	     SCOPE_STATIC_RUNTIME_OP,
	     SCOPE_STATIC_RUNTIME_MODEL,
	     SCOPES
};

/*
 * at::RecordFunctionCallback.  It is passed by value; because of its size C and C++ do that alike.
 */
struct callback {
	start_callback *start;
	end_callback *end;
	double sampling_prob;
	bool scopes[SCOPES];
	bool needs_inputs, needs_outputs, needs_ids;
};
_Static_assert(sizeof(struct callback) == 40, "as at::RecordFunctionCallback");

/* Names of PyTorch's own ranges. */
static const char loader_next[] = "enumerate(DataLoader)#";
static const char optimizer_step[] = "Optimizer.step#";

enum state { UNWANTED, LOOKING, FOUND, UNKNOWN };

static struct torch {
	_Atomic uint32_t state; /* FOUND: the function pointers below are set */
	uint64_t (*add)(struct callback callback);
	void (*remove)(uint64_t handle);
	const char *(*name)(const struct record_function *function);
	bool (*profiled)(void); /* whether torch.profiler records this thread; NULL = unknown */
	bool operators_wanted;
	bool steps_wanted;		 /* PFW_STEP=auto */
	uint64_t operators, annotations; /* callback handles; 0 = not registered */
	/* 1: being chosen; 2: step_name is the range that counts steps */
	_Atomic uint32_t step_chosen;
	_Atomic bool step_told;
	char step_name[128];
	_Atomic bool busy;
	/* enum pfw_profile: whether torch.profiler or we record operators */
	_Atomic uint32_t profile;
	_Atomic uint64_t profiled_count;
} torch;

/* ---- operators in progress ---- */

/* An at::ObserverContext that start() leaves for end().  C++ destroys it through its virtual table.
 * Ends may come out of order and in another thread. */
struct open_op {
	const void *functions;
	uint64_t t0;
	int32_t tid;
	uint16_t kind; /* enum pfw_kind */
	_Atomic uint16_t busy;
};

/* A thread's operators in progress.  They stay with the ring for the ring's next thread. */
struct pfw_operators {
	uint32_t count; /* entries after these are free */
	struct open_op op[DEPTH_MAX];
};
_Static_assert(sizeof(struct pfw_operators) <= 4096, "one page");

static void destroy(struct open_op *op)
{
	(void)op; /* never called: C++ destroys a context only by deleting it */
}

static void let_go(struct open_op *op)
{
	atomic_store_explicit(&op->busy, 0, memory_order_release);
}

/*
 * A virtual table by the Itanium C++ ABI, section 2.5: offset to top, type information, functions.
 */
static const struct {
	intptr_t offset_to_top;
	const void *type;
	void (*function[2])(struct open_op *);
} observer_context = { 0, NULL, { destroy, let_go } };

static struct pfw_operators *operators_of(struct pfw_ring *ring)
{
	if (!ring->operators)
		ring->operators = pfw_os_mmap(sizeof(struct pfw_operators), PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return ring->operators;
}

/* NULL: too many operators are open in this thread. */
static struct open_op *open_operator(struct pfw_operators *all, enum pfw_kind kind)
{
	struct open_op *op;

	while (all->count &&
	       !atomic_load_explicit(&all->op[all->count - 1].busy, memory_order_acquire))
		all->count--;
	if (all->count == DEPTH_MAX)
		return NULL;
	op = &all->op[all->count++];
	op->functions = observer_context.function;
	op->kind = (uint16_t)kind;
	atomic_store_explicit(&op->busy, 1, memory_order_relaxed);
	return op;
}

/* ---- steps ---- */

/* The first loader or optimizer to run defines the steps: two optimizers in a program make one step
 * together. */
static bool is_step(const char *name)
{
	uint32_t none = 0;

	if (atomic_compare_exchange_strong(&torch.step_chosen, &none, 1)) {
		memcpy(torch.step_name, name, strnlen(name, sizeof(torch.step_name) - 1));
		atomic_store(&torch.step_chosen, 2);
	}
	return atomic_load(&torch.step_chosen) == 2 &&
	       !strncmp(name, torch.step_name, sizeof(torch.step_name) - 1);
}

static bool defines_steps(const char *name, const char *prefix)
{
	return torch.steps_wanted && !strncmp(name, prefix, strlen(prefix)) && is_step(name) &&
	       !pfw_thread.vfork_child;
}

static void next_step(void)
{
	pfw_probe_ready(&pfw_switches->api); /* a forked child has no switch words yet */
	pfw_probe_host.step(true);
}

/*
 * A step lasts from the request for its batch to the next request, of which the last one has no
 * answer; or, without a loader, from the end of one optimizer's step to the end of the next.
 */
static void annotation_begins(const char *name)
{
	if (defines_steps(name, loader_next) && pfw_torch_loader_asked())
		next_step();
}

static void annotation_is_over(const char *name)
{
	pfw_span_ended(pfw_clock_ticks());
	if (defines_steps(name, optimizer_step))
		next_step();
	else if (defines_steps(name, loader_next) && pfw_torch_loader_exhausted())
		pfw_probe_host.no_step();
}

/* Write what defines the steps, once something is recorded. */
static void tell_steps(void)
{
	if (atomic_load(&torch.step_chosen) == 2 && pfw_api_on() &&
	    !atomic_exchange(&torch.step_told, true))
		pfw_instant(torch.step_name, "pfw_step");
}

/* ---- with torch.profiler active ---- */

/* An operator in torch.profiler's profile is written from the profile, which knows more; here it is
 * only counted. */
static bool left_to_profile(void)
{
	uint32_t profile = atomic_load_explicit(&torch.profile, memory_order_relaxed);

	if (profile == PFW_PROFILE_ENDS ||
	    (profile == PFW_PROFILE_BEGINS && torch.profiled && !torch.profiled()))
		return false;
	atomic_fetch_add(&torch.profiled_count, 1);
	pfw_ring_count_profiled();
	return true;
}

uint64_t pfw_torch_profile(enum pfw_profile what, uint64_t count)
{
	switch (what) {
	case PFW_PROFILE_BEGINS:
	case PFW_PROFILE_BEGINS_EVERYWHERE:
		atomic_store(&torch.profiled_count, 0);
		atomic_store(&torch.profile, (uint32_t)what);
		return 0;
	case PFW_PROFILE_ENDS:
		atomic_store(&torch.profile, PFW_PROFILE_ENDS);
		return atomic_load(&torch.profiled_count);
	case PFW_PROFILE_WRITTEN:
		pfw_probe_ready(&pfw_switches->api); /* a forked child has counts of its own */
		pfw_ring_profiled_written(count);
		return 0;
	case PFW_PROFILE_ASKS:
		return torch.operators != 0 && pfw_switches_records();
	case PFW_PROFILE_GPU_SINCE:
		return pfw_cupti_shares_since();
	}
	return 0;
}

void pfw_torch_ops_forked(void)
{
	atomic_store(&torch.profile, PFW_PROFILE_ENDS);
}

/* ---- the callbacks ---- */

static inline struct context_slot *start(struct context_slot *slot, enum pfw_kind kind)
{
	struct pfw_operators *all;
	struct open_op *op;

	slot->context = NULL;
	if (!pfw_api_on() || left_to_profile())
		return slot;
	all = operators_of(pfw_thread.ring);
	op = all ? open_operator(all, kind) : NULL;
	if (!op) {
		pfw_ring_count_lost(PFW_LOST_NO_MEMORY, 1);
		return slot;
	}
	op->tid = atomic_load_explicit(&pfw_thread.ring->tid, memory_order_relaxed);
	slot->context = op;
	op->t0 = pfw_clock_ticks();
	return slot;
}

__attribute__((used)) struct context_slot *
pfw_torch_operator_starts(struct context_slot *slot, const struct record_function *function);
__attribute__((used)) struct context_slot *
pfw_torch_annotation_starts(struct context_slot *slot, const struct record_function *function);

struct context_slot *pfw_torch_operator_starts(struct context_slot *slot,
					       const struct record_function *function)
{
	(void)function;
	return start(slot, PFW_KIND_CPU_OP);
}

/* In a line of the process that started it: in the worker itself PyTorch reports nothing. */
static void name_worker(int64_t pid, uint64_t number)
{
	struct pfw_span span;

	if (!pid || pfw_span_begin(&span, "DataLoader worker", "pfw"))
		return;
	pfw_span_arg_int(&span, "pid", pid);
	pfw_span_arg_int(&span, "number", (int64_t)number);
	pfw_api_end_instant(&span);
}

/* The workers of an iterator: _MultiProcessingDataLoaderIter, or torchdata's
 * _StatefulMultiProcessingDataLoaderIter. */
static void name_workers(const char *name)
{
	if (!strncmp(name, loader_next, strlen(loader_next)) && strstr(name, "MultiProcessing") &&
	    pfw_api_on() && !pfw_thread.vfork_child)
		pfw_torch_loader_workers(name_worker);
}

struct context_slot *pfw_torch_annotation_starts(struct context_slot *slot,
						 const struct record_function *function)
{
	if (torch.steps_wanted)
		annotation_begins(torch.name(function));
	name_workers(torch.name(function));
	if (!torch.operators_wanted) {
		slot->context = NULL;
		return slot;
	}
	return start(slot, PFW_KIND_ANNOTATION);
}

#ifdef __aarch64__
/* On aarch64 the address of a returned object comes in x8: move it to C's first argument. */
#define FROM_X8(name)                                                                    \
	__asm__(".text\n.hidden " #name "_x8\n.type " #name "_x8, %function\n" #name     \
		"_x8:\n\tbti c\n\tmov x1, x0\n\tmov x0, x8\n\tb " #name "\n.size " #name \
		"_x8, .-" #name "_x8\n");                                                \
	start_callback name##_x8;
FROM_X8(pfw_torch_operator_starts)
FROM_X8(pfw_torch_annotation_starts)
#define CALLBACK(name) name##_x8
#else
#define CALLBACK(name) name
#endif

static void ends(const struct record_function *function, void *context)
{
	const struct open_op *op = context;
	uint64_t t1;

	if (!op || !pfw_api_on())
		return;
	t1 = pfw_clock_ticks();
	pfw_api_operator(torch.name(function), (enum pfw_kind)op->kind, op->tid, op->t0, t1);
	if (torch.steps_wanted)
		pfw_span_ended(t1);
}

static void annotation_ends(const struct record_function *function, void *context)
{
	ends(function, context);
	if (torch.steps_wanted) {
		annotation_is_over(torch.name(function));
		tell_steps();
	}
}

/* ---- finding PyTorch ---- */

/* The version in torch/version.py ("2.15.0+cu132"), one directory above libtorch_cpu.so's; "" =
 * none. */
static void read_version(const void *symbol, char *version, size_t size)
{
	static const char key[] = "__version__ = '";
	char file[4096], path[1024];
	const char *slash, *at;
	struct pfw_text text;
	Dl_info info;

	version[0] = '\0';
	if (!dladdr(symbol, &info) || !(slash = strrchr(info.dli_fname, '/')))
		return;
	pfw_text_init(&text, path, sizeof(path));
	pfw_text_add_bytes(&text, info.dli_fname, (size_t)(slash - info.dli_fname));
	pfw_text_add(&text, "/../version.py");
	if (text.cut || pfw_os_read_file(path, file, sizeof(file)) <= 0)
		return;
	at = strstr(file, key);
	if (!at)
		return;
	at += sizeof(key) - 1;
	pfw_text_init(&text, version, size);
	pfw_text_add_bytes(&text, at, strcspn(at, "' \t\r\n"));
}

static bool known_version(const char *version)
{
	uint64_t minor = 0;

	return !strncmp(version, "2.", 2) && pfw_text_read_u64(version + 2, &minor) &&
	       minor <= MINOR_MAX;
}

static void say_unknown(const char *what)
{
	char line[256];
	struct pfw_text text;

	pfw_text_init(&text, line, sizeof(line));
	PFW_TEXT_ADD(&text, torch.operators_wanted ? "PFW_TORCH_OPS" : "PFW_STEP=auto",
		     ": PyTorch ",
		     *what ? what : "of a version that torch/version.py does not tell",
		     " is not known (2.0 to 2.15 are): its operators and steps are not recorded");
	pfw_say(line);
}

static void look(void)
{
	/*
	 * The handle is kept, so that the library stays loaded while our callbacks are registered.
	 */
	void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
	char version[64];
	bool known;

	if (!library)
		return;
	*(void **)&torch.add =
		dlsym(library, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
	*(void **)&torch.remove = dlsym(library, "_ZN2at14removeCallbackEm");
	*(void **)&torch.name = dlsym(library, "_ZNK2at14RecordFunction4nameEv");
	*(void **)&torch.profiled = dlsym(library, "_ZN5torch8profiler4impl15profilerEnabledEv");
	read_version(torch.add ? *(void **)&torch.add : library, version, sizeof(version));
	known = torch.add && torch.remove && torch.name && known_version(version);
	atomic_store(&torch.state, known ? FOUND : UNKNOWN);
	if (!known)
		say_unknown(version);
}

static void listen_to(uint64_t *handle, bool wanted, const struct callback *callback)
{
	if (wanted && !*handle)
		*handle = torch.add(*callback);
	else if (!wanted && *handle)
		torch.remove(*handle);
	if (!wanted)
		*handle = 0;
}

/* Register or remove callbacks.  Steps are counted also while recording is off. */
static void listen(bool records)
{
	struct callback annotations = { .start = CALLBACK(pfw_torch_annotation_starts),
					.end = annotation_ends,
					.sampling_prob = 1.0,
					.scopes[SCOPE_USER] = true };
	struct callback operators = { .start = CALLBACK(pfw_torch_operator_starts),
				      .end = ends,
				      .sampling_prob = 1.0,
				      .scopes = { [SCOPE_FUNCTION] = true,
						  [SCOPE_BACKWARD_FUNCTION] = true,
						  [SCOPE_TORCHSCRIPT_FUNCTION] = true,
						  [SCOPE_LITE_INTERPRETER] = true,
						  [SCOPE_STATIC_RUNTIME_OP] = true,
						  [SCOPE_STATIC_RUNTIME_MODEL] = true } };

	if (atomic_exchange(&torch.busy, true))
		return; /* another thread does it; there will be another tick */
	listen_to(&torch.annotations, torch.steps_wanted || (torch.operators_wanted && records),
		  &annotations);
	listen_to(&torch.operators, torch.operators_wanted && records, &operators);
	atomic_store(&torch.busy, false);
}

void pfw_torch_ops_listen(void)
{
	if (atomic_load(&torch.state) == FOUND)
		listen(pfw_switches_records());
}

bool pfw_torch_steps(const struct pfw_config *config)
{
	return config->step && pfw_text_same(config->step, "auto");
}

void pfw_torch_ops_init(const struct pfw_config *config)
{
	torch.operators_wanted = config->torch_ops;
	torch.steps_wanted = pfw_torch_steps(config);
	if ((torch.operators_wanted || torch.steps_wanted) && atomic_load(&torch.state) == UNWANTED)
		atomic_store(&torch.state, LOOKING);
}

bool pfw_torch_ops_tick(void)
{
	if (atomic_load(&torch.state) == LOOKING)
		look();
	pfw_torch_ops_listen();
	return atomic_load(&torch.state) == LOOKING;
}
