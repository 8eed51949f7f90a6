/* preload.c - libpfw_preload.so: libc's names and pfw.h's, as jumps to whoever should have them.
 *
 * It needs nothing but libc: an object in LD_PRELOAD whose library cannot be found would keep every
 * program from starting.  Each exported name is one indirect jump through a slot, so arguments of
 * any number and kind, and vfork's return address, pass untouched.  A slot leads to a resolver at
 * first, from the first call on to the next definition of the name (libc's, or another preload's),
 * and, where tracing is enabled and the recorder is found, to the recorder's wrapper.  Without the
 * recorder: one line, and every name leads to libc.
 */
#define PFW_BUILDING
#define PFW_OS_NO_POISON
#include "os.h"
#include "preload_abi.h"
#include "preload_next.h"
#include "preload_table.h"

#include <pfw/pfw.h>

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#define SONAME "libpfw.so.1"

extern char **environ;

/* ---- the exported names ---- */

/*
 * JUMP(name): through the slot; an indirect jump may land on it (endbr64, hint 34 = bti c).
 * RESOLVE(name): where the slot leads first; says which slot, then resolves.
 */
#if defined(__x86_64__)
#define JUMP(name)   \
	"	endbr64\n" \
	"	jmp *pfw_slot_" #name "(%rip)\n"
#define RESOLVE(name)                                  \
	"	endbr64\n"                                   \
	"	leaq pfw_slot_" #name "(%rip), %r11\n" \
	"	jmp pfw_resolve_and_go\n"
#elif defined(__aarch64__)
/* ldar: on this processor a thread that sees the wrapper in the slot need not see what it uses. */
#define JUMP(name)                                        \
	"	hint 34\n"                                      \
	"	adrp x16, pfw_slot_" #name "\n"           \
	"	add x16, x16, :lo12:pfw_slot_" #name "\n" \
	"	ldar x16, [x16]\n"                              \
	"	br x16\n"
#define RESOLVE(name)                                     \
	"	hint 34\n"                                      \
	"	adrp x17, pfw_slot_" #name "\n"           \
	"	add x17, x17, :lo12:pfw_slot_" #name "\n" \
	"	b pfw_resolve_and_go\n"
#else
#error "pfw: src/preload.c has no jumps for this processor yet"
#endif

#define EXPORTED(name)       \
	".globl " #name "\n" \
	".type " #name ", %function\n" #name ":\n" JUMP(name) ".size " #name ", . - " #name "\n"

#define CALL_ROW(name)                                                                       \
	extern char resolve_##name[] __asm__("pfw_resolve_" #name)                           \
		__attribute__((visibility("hidden")));                                       \
	__attribute__((visibility("hidden"), used)) void *_Atomic slot_##name __asm__(       \
		"pfw_slot_" #name) = resolve_##name;                                         \
	__asm__(".pushsection .text\n" EXPORTED(name) ".popsection\n"                        \
						      ".pushsection pfw_resolvers, \"ax\"\n" \
						      "pfw_resolve_" #name                   \
						      ":\n" RESOLVE(name) ".popsection\n");
/* Between these two names are the resolvers: the compiler keeps the order of such lines. */
extern char resolvers_begin[] __asm__("pfw_resolvers_begin") __attribute__((visibility("hidden")));
extern char resolvers_end[] __asm__("pfw_resolvers_end") __attribute__((visibility("hidden")));
__asm__(".pushsection pfw_resolvers, \"ax\"\npfw_resolvers_begin:\n.popsection\n");
#define CALL_FD(category, ret, name, ...) CALL_ROW(name)
#define CALL_PATH(category, ret, name, ...) CALL_ROW(name)
#define CALL_STREAM(category, ret, name, ...) CALL_ROW(name)
#define CALL_BY_HAND(category, ret, name, ...) CALL_ROW(name)
#include "probes/calls.def"
__asm__(".pushsection pfw_resolvers, \"ax\"\npfw_resolvers_end:\n.popsection\n");

/* The slot comes in a scratch register.  Every register that may hold an argument is kept, also
 * those of a variadic call, and x8: where a structure is to be returned. */
#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	"pfw_resolve_and_go:\n"
	"	pushq %rdi\n	pushq %rsi\n	pushq %rdx\n	pushq %rcx\n"
	"	pushq %r8\n	pushq %r9\n	pushq %rax\n"
	"	subq $128, %rsp\n"
	"	movups %xmm0, (%rsp)\n	movups %xmm1, 16(%rsp)\n"
	"	movups %xmm2, 32(%rsp)\n	movups %xmm3, 48(%rsp)\n"
	"	movups %xmm4, 64(%rsp)\n	movups %xmm5, 80(%rsp)\n"
	"	movups %xmm6, 96(%rsp)\n	movups %xmm7, 112(%rsp)\n"
	"	movq %r11, %rdi\n"
	"	call pfw_resolve_slot\n"
	"	movq %rax, %r11\n"
	"	movups (%rsp), %xmm0\n	movups 16(%rsp), %xmm1\n"
	"	movups 32(%rsp), %xmm2\n	movups 48(%rsp), %xmm3\n"
	"	movups 64(%rsp), %xmm4\n	movups 80(%rsp), %xmm5\n"
	"	movups 96(%rsp), %xmm6\n	movups 112(%rsp), %xmm7\n"
	"	addq $128, %rsp\n"
	"	popq %rax\n	popq %r9\n	popq %r8\n"
	"	popq %rcx\n	popq %rdx\n	popq %rsi\n	popq %rdi\n"
	"	jmp *%r11\n"
	".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
	"pfw_resolve_and_go:\n"
	"	stp x29, x30, [sp, -224]!\n	mov x29, sp\n"
	"	stp x0, x1, [sp, 16]\n	stp x2, x3, [sp, 32]\n"
	"	stp x4, x5, [sp, 48]\n	stp x6, x7, [sp, 64]\n	str x8, [sp, 80]\n"
	"	stp q0, q1, [sp, 96]\n	stp q2, q3, [sp, 128]\n"
	"	stp q4, q5, [sp, 160]\n	stp q6, q7, [sp, 192]\n"
	"	mov x0, x17\n"
	"	bl pfw_resolve_slot\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [sp, 16]\n	ldp x2, x3, [sp, 32]\n"
	"	ldp x4, x5, [sp, 48]\n	ldp x6, x7, [sp, 64]\n	ldr x8, [sp, 80]\n"
	"	ldp q0, q1, [sp, 96]\n	ldp q2, q3, [sp, 128]\n"
	"	ldp q4, q5, [sp, 160]\n	ldp q6, q7, [sp, 192]\n"
	"	ldp x29, x30, [sp], 224\n"
	"	br x16\n"
	".popsection\n");
#endif

/* pfw.h's names: the same, but they lead to functions that do nothing while there is no recorder. */
static int absent_start(const void *options);
static int absent_span_begin(uint64_t *span);
static int absent_stats(struct pfw_stats *stats);
static long absent(void);
#define absent_pfw_start absent_start
#define absent_pfw_span_begin absent_span_begin
#define absent_pfw_stop absent
#define absent_pfw_flush absent
#define absent_pfw_set_rank absent
#define absent_pfw_span_end absent
#define absent_pfw_span_arg_int absent
#define absent_pfw_span_arg_double absent
#define absent_pfw_span_arg_str absent
#define absent_pfw_span_end_as absent
#define absent_pfw_span_drop absent
#define absent_pfw_span_current absent
#define absent_pfw_span_set_current absent
#define absent_pfw_enabled absent
#define absent_pfw_event absent
#define absent_pfw_instant absent
#define absent_pfw_counter absent
#define absent_pfw_compute_event absent
#define absent_pfw_schedule_action absent
#define absent_pfw_set_schedule absent
#define absent_pfw_step absent
#define absent_pfw_on_trace_ready absent
#define absent_pfw_torch_profile absent
#define absent_pfw_stats absent_stats
#define absent_pfw_version absent

#define X(name)                                                                        \
	__attribute__((visibility("hidden"), used)) void *_Atomic slot_##name __asm__( \
		"pfw_slot_" #name) = (void *)absent_##name;                            \
	__asm__(".pushsection .text\n" EXPORTED(name) ".popsection\n");
PFW_API_FUNCTIONS(X)
#undef X

/* ---- tables ---- */

static const char *const call_name[] = {
#define CALL_FD(category, ret, name, ...) #name,
#define CALL_PATH(category, ret, name, ...) #name,
#define CALL_STREAM(category, ret, name, ...) #name,
#define CALL_BY_HAND(category, ret, name, ...) #name,
#include "probes/calls.def"
};
#define CALLS (sizeof(call_name) / sizeof(call_name[0]))

static void *_Atomic *const call_slot[CALLS] = {
#define CALL_FD(category, ret, name, ...) &slot_##name,
#define CALL_PATH(category, ret, name, ...) &slot_##name,
#define CALL_STREAM(category, ret, name, ...) &slot_##name,
#define CALL_BY_HAND(category, ret, name, ...) &slot_##name,
#include "probes/calls.def"
};

static void *_Atomic *const api_slot[PFW_API_SLOTS] = {
#define X(name) &slot_##name,
	PFW_API_FUNCTIONS(X)
#undef X
};

static void *real[CALLS];

/* ---- resolving ---- */

/* A name that this libc does not have: what the kernel would say of a call it does not have. */
static long no_such_call(void)
{
	errno = ENOSYS;
	return -1;
}

static void *next_definition(size_t call)
{
	void *volatile found = pfw_preload_next(call_name[call]);

	/* Not in tail position: RTLD_NEXT goes by the return address of dlsym's caller. */
	if (!found)
		found = dlsym(RTLD_NEXT, call_name[call]);
	return found;
}

/* Lead a slot to `found`, unless it leads somewhere already: by now it may be a wrapper's.  Return
 * where it leads. */
static void *settle(void *_Atomic *slot, void *found)
{
	void *seen = atomic_load(slot);

	while ((char *)seen >= resolvers_begin && (char *)seen < resolvers_end)
		if (atomic_compare_exchange_weak(slot, &seen, found))
			return found;
	return seen;
}

/* The first call of a name; it may come before our constructor has run, by another library's. */
__attribute__((visibility("hidden"), used)) void *
resolve_slot(void *_Atomic *slot) __asm__("pfw_resolve_slot");
void *resolve_slot(void *_Atomic *slot)
{
	int error = errno;
	size_t call = 0;
	void *found;

	pfw_preload_next_init();
	while (call < CALLS && call_slot[call] != slot)
		call++;
	found = next_definition(call);
	found = settle(slot, found ? found : (void *)no_such_call);
	errno = error;
	return found;
}

static void resolve_all(void)
{
	for (size_t i = 0; i < CALLS; i++) {
		real[i] = next_definition(i);
		settle(call_slot[i], real[i] ? real[i] : (void *)no_such_call);
	}
}

/* ---- the recorder ---- */

/* Once: pfw_start() tries again what the constructor could not do. */
static void say(const char *what, const char *why)
{
	static bool said;
	char line[1024];
	size_t at = 0;
	const char *const parts[] = { "pfw: ", what, why,
				      "; the program runs untraced (keep libpfw_preload.so and "
				      "libpfw.so.1 of one build side by side)\n" };

	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		size_t bytes = strlen(parts[i]);

		if (at + bytes > sizeof(line))
			bytes = sizeof(line) - at;
		memcpy(line + at, parts[i], bytes);
		at += bytes;
	}
	if (!said)
		pfw_os_say(2, line, at);
	said = true;
}

/* dl_iterate_phdr: is this object the recorder?  Its path goes to *user (4096 bytes). */
static int is_recorder(struct dl_phdr_info *info, size_t size, void *user)
{
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

	(void)size;
	if (!slash || strcmp(slash + 1, SONAME) || strlen(info->dlpi_name) >= 4096)
		return 0;
	strcpy(user, info->dlpi_name);
	return 1;
}

/*
 * The process's copy of the recorder, if it has one (a linked program); else the one beside this
 * object.  Looked for in the list of loaded objects: dlopen by name would search the whole library
 * path first, 40 system calls in each process.
 */
static void *open_recorder(void)
{
	char path[4096];
	Dl_info here;
	char *slash;

	if (dl_iterate_phdr(is_recorder, path))
		return dlopen(path, RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
	if (!dladdr((void *)open_recorder, &here) ||
	    strlen(here.dli_fname) + sizeof(SONAME) > sizeof(path))
		return NULL;
	strcpy(path, here.dli_fname);
	slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, SONAME);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* True: the slots now lead where the recorder wants them. */
static bool attach(bool asked)
{
	const struct pfw_preload table = {
		.abi = pfw_abi,
		.real = real,
		.slot = call_slot,
		.api = api_slot,
		.call_count = CALLS,
		.asked = asked,
	};
	void *library = open_recorder();
	pfw_preload_attach_fn *take;
	const char *why;

	if (!library) {
		why = dlerror();
		say("cannot load " SONAME ": ", why ? why : "no such file");
		return false;
	}
	resolve_all();
	take = (pfw_preload_attach_fn *)dlsym(library, "pfw_preload_attach");
	if (!take || take(&table)) {
		say(SONAME " is of another build than libpfw_preload.so", "");
		return false;
	}
	return true;
}

/* DFTRACER_ENABLE is there and not a plain 0: the recorder decides the rest.  Not getenv(), which
 * other objects may replace; a process that is not traced must not even load the recorder. */
static bool enabled(void)
{
	static const char name[] = "DFTRACER_ENABLE=";

	for (char **at = environ; at && *at; at++)
		if (!strncmp(*at, name, sizeof(name) - 1))
			return strcmp(*at + sizeof(name) - 1, "0") != 0 &&
			       (*at)[sizeof(name) - 1] != '\0';
	return false;
}

static long absent(void)
{
	return 0;
}

static int absent_span_begin(uint64_t *span)
{
	if (span)
		*span = 0; /* so that an end after a later pfw_start() finds it closed */
	return 0;
}

static int absent_stats(struct pfw_stats *stats)
{
	size_t bytes = stats ? stats->struct_bytes : 0;

	if (bytes < sizeof(*stats))
		return -EINVAL;
	memset(stats, 0, sizeof(*stats));
	stats->struct_bytes = bytes;
	return 0;
}

bool pfw_preload_take(void)
{
	return attach(true);
}

static int absent_start(const void *options)
{
	int (*start)(const void *);
	int error = errno;
	bool attached = attach(true);

	errno = error;
	if (!attached)
		return -ENOENT;
	start = (int (*)(const void *))atomic_load(&slot_pfw_start);
	return start(options);
}

__attribute__((constructor)) static void preloaded(void)
{
	int error = errno;

	pfw_preload_next_init();
	if (enabled())
		attach(false);
	errno = error;
}
