/* preload/preload.c - libpfw_preload.so: exports libc's names and pfw.h's as jumps; see table.h.
 *
 * With PFW_PRELOAD_SYNC it becomes libpfw_preload_sync.so, which also has the names of locks and
 * sleeps (PFW_CALLS=+sync): in the other object they would cost every program a jump for each lock.
 *
 * It needs nothing but libc: a preloaded object with a missing library would keep every program
 * from starting.  Each exported name is one indirect jump through a slot, so any arguments, and
 * vfork's return address, pass unchanged.  A slot first leads to a resolver; after the constructor,
 * or the first call after it, to the next definition of the name (of libc or another preload).  If
 * tracing is enabled and the recorder is found, it leads to the recorder's wrapper.  A missing
 * recorder is reported once.
 */
#define PFW_BUILDING
#define PFW_OS_NO_POISON
#include "common/base/os.h"
#include "preload/abi.h"
#include "preload/next.h"
#include "preload/table.h"

#include <pfw/pfw.h>

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#define SONAME "libpfw.so.1"
#define SIDE_BY_SIDE " (keep libpfw_preload.so and libpfw.so.1 of one build side by side)"

/* Absent on musl, whose linker takes libc.so.6 for itself and so loads this object. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

extern char **environ;

/* ---- the exported names ---- */

/*
 * JUMP(name): jump through the slot; a valid target of indirect jumps (endbr64, hint 34 = bti c).
 * RESOLVE(name): the first target of the slot: pass the slot's address to pfw_resolve_and_go.
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
/* ldar (acquire): a thread that sees the wrapper in the slot must see the data of the wrapper. */
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
#error "pfw: src/preload/preload.c has no jumps for this processor yet"
#endif

#define EXPORTED(name)       \
	".globl " #name "\n" \
	".type " #name ", %function\n" #name ":\n" JUMP(name) ".size " #name ", . - " #name "\n"

/* The first argument for the rows that this object exports, the second for others. */
#define EXPORTED_POSIX(yes, no) yes
#define EXPORTED_STDIO EXPORTED_POSIX
#define EXPORTED_NET EXPORTED_POSIX
#ifdef PFW_PRELOAD_SYNC
#define EXPORTED_SYNC EXPORTED_POSIX
#else
#define EXPORTED_SYNC(yes, no) no
#endif

#define CALL_ROW(name)                                                                       \
	extern char resolve_##name[] __asm__("pfw_resolve_" #name)                           \
		__attribute__((visibility("hidden")));                                       \
	__attribute__((visibility("hidden"), used)) void *_Atomic slot_##name __asm__(       \
		"pfw_slot_" #name) = resolve_##name;                                         \
	__asm__(".pushsection .text\n" EXPORTED(name) ".popsection\n"                        \
						      ".pushsection pfw_resolvers, \"ax\"\n" \
						      "pfw_resolve_" #name                   \
						      ":\n" RESOLVE(name) ".popsection\n");
/* The resolvers are between these two symbols: the compiler keeps the order of asm statements. */
extern char resolvers_begin[] __asm__("pfw_resolvers_begin") __attribute__((visibility("hidden")));
extern char resolvers_end[] __asm__("pfw_resolvers_end") __attribute__((visibility("hidden")));
__asm__(".pushsection pfw_resolvers, \"ax\"\npfw_resolvers_begin:\n.popsection\n");
#define CALL_ANY(category, ret, name, ...) EXPORTED_##category(CALL_ROW(name), )
#include "common/calls/calls.def"
__asm__(".pushsection pfw_resolvers, \"ax\"\npfw_resolvers_end:\n.popsection\n");

/* The slot is in a scratch register.  All registers of arguments are saved, also those of a
 * variadic call, and x8, the address of a returned structure. */
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

/* pfw.h's names: without a recorder their slots lead to functions that do nothing. */
static int absent_start(const void *options);
static int absent_span_begin(uint64_t *span);
static int absent_stats(struct pfw_stats *stats);
static long absent_nothing(void);

#define X(name, absent)                                                                \
	__attribute__((visibility("hidden"), used)) void *_Atomic slot_##name __asm__( \
		"pfw_slot_" #name) = (void *)absent_##absent;                          \
	__asm__(".pushsection .text\n" EXPORTED(name) ".popsection\n");
PFW_API_FUNCTIONS(X)
#undef X

/* ---- sanitizers ---- */

/* Options for the runtimes of AddressSanitizer, which ends a program that has an object before it,
 * and of ThreadSanitizer, which does not see that atomics order the recorder's copies. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}

__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:" SONAME "\n";
}

/* ---- tables ---- */

static const char *const call_name[] = {
#define CALL_ANY(category, ret, name, ...) #name,
#include "common/calls/calls.def"
};
#define CALLS (sizeof(call_name) / sizeof(call_name[0]))

/* NULL: not exported. */
static void *_Atomic *const call_slot[CALLS] = {
#define CALL_ANY(category, ret, name, ...) EXPORTED_##category(&slot_##name, NULL),
#include "common/calls/calls.def"
};

static void *_Atomic *const api_slot[PFW_API_SLOTS] = {
#define X(name, absent) &slot_##name,
	PFW_API_FUNCTIONS(X)
#undef X
};

static void *real[CALLS];

/* Calls before our constructor: those that .preinit_array and the constructors of other libraries
 * make.  Nothing is started there: libc may not be ready, or a library be in the middle of what the
 * start needs (an allocator, its own dlopen). */
static _Atomic uint32_t early[CALLS];
static _Atomic bool constructed;

/* ---- resolving ---- */

/* The target of names that this libc does not have: ENOSYS, as for an unknown system call. */
static long no_such_call(void)
{
	errno = ENOSYS;
	return -1;
}

static void *next_definition(size_t call)
{
	void *volatile found = pfw_preload_next(call_name[call]);

	/* No tail call (hence volatile): RTLD_NEXT depends on the return address of dlsym(). */
	if (!found)
		found = dlsym(RTLD_NEXT, call_name[call]);
	return found;
}

/* Set a slot to `found` unless it has a wrapper by now.  Return its target. */
static void *settle(void *_Atomic *slot, void *found)
{
	void *seen = atomic_load(slot);

	while ((char *)seen >= resolvers_begin && (char *)seen < resolvers_end)
		if (atomic_compare_exchange_weak(slot, &seen, found))
			return found;
	return seen;
}

/* The first call of a name, and before our constructor each call, to count it. */
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
	if (!found)
		found = (void *)no_such_call;
	if (atomic_load(&constructed))
		found = settle(slot, found);
	else
		atomic_fetch_add(&early[call], 1);
	errno = error;
	return found;
}

static void resolve_all(void)
{
	for (size_t i = 0; i < CALLS; i++)
		real[i] = call_slot[i] ? next_definition(i) : NULL;
}

static void settle_all(void)
{
	for (size_t i = 0; i < CALLS; i++)
		if (call_slot[i])
			settle(call_slot[i], real[i] ? real[i] : (void *)no_such_call);
}

/* ---- the recorder ---- */

/* Say it once: pfw_start() repeats what failed in the constructor. */
static void say(const char *what, const char *why, const char *cure)
{
	static bool said;
	const char *const parts[] = {
		"pfw: ", what, why, "; the program runs untraced", cure, "\n"
	};
	struct iovec line[PFW_ARRAY_LEN(parts)];

	for (unsigned i = 0; i < PFW_ARRAY_LEN(parts); i++)
		line[i] = (struct iovec){ (void *)(uintptr_t)parts[i], strlen(parts[i]) };
	if (!said)
		pfw_os_say(2, line, PFW_ARRAY_LEN(line));
	said = true;
}

/* For dl_iterate_phdr(): whether this object is the recorder; *user (4096 bytes) gets its path. */
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
 * Open the recorder that is loaded (by a linked program), else the one in the directory of this
 * object.  Searching the list of loaded objects is cheap: dlopen() by name would first search the
 * library path, 40 system calls in each process.
 */
static void *open_recorder(void)
{
	static char path[4096]; /* not on the stack, which may be a small thread's */
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

/* Load the recorder and let it fill the slots; whether that succeeded. */
static bool attach(bool asked)
{
	const struct pfw_preload table = {
		.abi = pfw_abi,
		.real = real,
		.slot = call_slot,
		.api = api_slot,
		.early = early,
		.call_count = CALLS,
		.asked = asked,
	};
	pfw_preload_attach_fn *take;
	const char *why;
	void *library;
	bool taken;

	if (!gnu_get_libc_version) {
		say("the recorder needs glibc, and this program uses another libc", "", "");
		return false;
	}
	library = open_recorder();
	if (!library) {
		why = dlerror();
		say("cannot load " SONAME ": ", why ? why : "no such file", SIDE_BY_SIDE);
		return false;
	}
	resolve_all();
	take = (pfw_preload_attach_fn *)dlsym(library, "pfw_preload_attach");
	taken = take && !take(&table);
	settle_all(); /* after the wrappers are in place: else calls meanwhile would not be counted */
	if (!taken)
		say(SONAME " is of another build than libpfw_preload.so", "", SIDE_BY_SIDE);
	return taken;
}

/* Whether DFTRACER_ENABLE is set and is not "0": an untraced process must not even load the
 * recorder, which then checks the value.  Not by getenv(): other objects may replace it. */
static bool enabled(void)
{
	static const char name[] = "DFTRACER_ENABLE=";

	if (getauxval(
		    AT_SECURE)) /* set-user-ID: the variables come from a user with fewer rights */
		return false;
	for (char **at = environ; at && *at; at++)
		if (!strncmp(*at, name, sizeof(name) - 1))
			return strcmp(*at + sizeof(name) - 1, "0") != 0 &&
			       (*at)[sizeof(name) - 1] != '\0';
	return false;
}

static long absent_nothing(void)
{
	return 0;
}

static int absent_span_begin(uint64_t *span)
{
	if (span)
		*span = 0; /* closed, for pfw_span_end() after a later pfw_start() */
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
	atomic_store(&constructed, true);
	errno = error;
}
