/* recorder/probe/probe.c - the out-of-line parts of a probe: readiness, records, paths. */
#include "recorder/probe/probe.h"

#include <signal.h>
#include <string.h>

#include "common/calls/table.h"
#include "recorder/guest/peek.h"
#include "recorder/probe/call_filter.h"
#include "recorder/probe/path_filter.h"
#include "recorder/spool/short_sums.h"
#include "recorder/spool/strings.h"

/* Until session has made the real page: switched off, and not a forked child. */
static struct pfw_switches not_yet = { .born = 1 };
struct pfw_switches *pfw_switches = &not_yet;
struct pfw_probe_host pfw_probe_host;
__thread struct pfw_thread pfw_thread __attribute__((tls_model("initial-exec")));

#define PATH_BYTES 4096u
#define JOINED_BYTES 640u

/* ---- may this thread record? ---- */

/*
 * A thread gets its ring with all signals blocked: a handler in between could not record, and could
 * end the process with half of the work done.  The guard stops other re-entries: an allocator that
 * does I/O inside dlopen.
 */
static bool guard_enter(uint64_t *mask)
{
	const uint64_t all = ~0ull;

	if (pfw_thread.guarded)
		return false;
	pfw_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)mask, sizeof(all), 0, 0);
	pfw_thread.guarded = 1;
	return true;
}

static void guard_leave(const uint64_t *mask)
{
	pfw_thread.guarded = 0;
	pfw_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)mask, 0, sizeof(*mask), 0, 0);
}

void pfw_thread_forked(void)
{
	pfw_thread.forking = 0;
	pfw_thread.ring = NULL;
	pfw_thread.live = 0;
	pfw_thread.span = 0;
	pfw_thread.gpu_begun = pfw_thread.gpu_pushed = 0;
	/* These names are in the parent's arena. */
	memset(pfw_thread.known, 0, sizeof(pfw_thread.known));
	pfw_thread.known_category.from = NULL;
	pfw_thread.annotation = 0;
}

/*
 * Span ids are kept small, since several lines repeat them: the count of the ring's earlier spans,
 * with the low 8 bits of the ring's number below; the rest of that number is above 2^41.  All ids
 * are below 2^53.
 */
static uint64_t first_span(const struct pfw_ring *ring)
{
	uint64_t low = ring->index % PFW_SPAN_ID_STEP, high = ring->index / PFW_SPAN_ID_STEP;

	return ring->spans ? ring->spans : high << 41 | PFW_SPAN_ID_STEP | low;
}

static bool get_ring(uint64_t word, bool counted)
{
	uint64_t born = atomic_load_explicit(&pfw_switches->born, memory_order_relaxed);

	/* Another thread may have been the first of a forked child to record. */
	if (pfw_thread.ring && pfw_thread.born != born)
		pfw_thread_forked();
	pfw_thread.born = born;
	if (!pfw_thread.ring) {
		struct pfw_ring *ring = pfw_ring_acquire();

		if (!ring) {
			pfw_ring_count_lost(PFW_LOST_NO_MEMORY, counted);
			return false;
		}
		pfw_sums_taken(ring->sums);
		pfw_thread.spans = first_span(ring);
		pfw_thread.ring = ring;
		if (pfw_probe_host.thread_born)
			pfw_probe_host.thread_born();
	} else if (pfw_ring_host.wake && !(word & PFW_SWITCH_ENDED)) {
		pfw_ring_host.wake(); /* the writer has stopped, or the process has forked */
	}
	pfw_thread.live = word & ~PFW_SWITCH_DIRECT;
	return true;
}

/* The first probe of a forked child sets the child up; its other threads wait for that. */
static void set_up_child(void)
{
	int error = errno;
	uint32_t nobody = 0;
	uint64_t mask;

	if (!pfw_probe_host.forked || !guard_enter(&mask))
		return;
	if (atomic_compare_exchange_strong(&pfw_switches->claimed, &nobody, 1))
		pfw_probe_host.forked();
	while (!atomic_load(&pfw_switches->born))
		pfw_os_sleep_ns(20000);
	guard_leave(&mask);
	errno = error;
}

/* False in a vfork child.  Sets a forked child up first. */
static bool alive(void)
{
	if (pfw_thread.vfork_child)
		return false;
	if (!atomic_load_explicit(&pfw_switches->born, memory_order_acquire))
		set_up_child();
	return true;
}

static uint64_t make_ready(const _Atomic uint64_t *word, bool counted)
{
	int error = errno;
	uint64_t now, mask;

	if (!alive())
		return 0;
	/* Pairs with the store that switched on: session's setup is visible after it. */
	now = atomic_load_explicit(word, memory_order_acquire);
	if (now == PFW_SWITCH_STEPS)
		return 0;
	/* In direct mode the words never match, but a thread that has its ring may go on. */
	if (!now || (pfw_thread.ring && pfw_thread.live == (now & ~PFW_SWITCH_DIRECT)))
		return now;
	/* The word of this state never equals a thread's word, so each event comes here and is counted. */
	if (now & PFW_SWITCH_LIMIT) {
		pfw_ring_count_lost(PFW_LOST_LIMIT, counted);
		return 0;
	}
	if (!guard_enter(&mask)) {
		pfw_ring_count_lost(PFW_LOST_NO_WRITER, counted);
		return 0;
	}
	now = get_ring(now, counted) ? now : 0;
	guard_leave(&mask);
	errno = error;
	return now;
}

uint64_t pfw_probe_ready(const _Atomic uint64_t *word)
{
	return make_ready(word, true);
}

bool pfw_probe_names(void)
{
	return make_ready(&pfw_switches->io, false) != 0;
}

bool pfw_probe_fd_slow(struct pfw_probe *probe, int fd)
{
	uint64_t entry;

	if (!alive() || !atomic_load_explicit(&pfw_switches->io, memory_order_acquire))
		return false;
	entry = pfw_fd_resolve(fd);
	if (pfw_fd_state(entry) == PFW_FD_UNTRACED || !pfw_probe_ready(&pfw_switches->io))
		return false;
	/* Not open: the call will fail with EBADF, which is worth a line. */
	probe->name = pfw_fd_state(entry) == PFW_FD_TRACED ? pfw_fd_name(entry) : 0;
	probe->t0 = pfw_clock_ticks();
	return true;
}

bool pfw_probe_bare(struct pfw_probe *probe, uint16_t call)
{
	uint64_t word = atomic_load_explicit(&pfw_switches->io, memory_order_relaxed);

	if (!word && pfw_switches_off(&pfw_switches->io))
		return false;
	if ((!word || word != pfw_thread.live) && !pfw_probe_ready(&pfw_switches->io))
		return false;
	probe->call = pfw_call_filter[call];
	probe->name = 0;
	probe->t0 = pfw_clock_ticks();
	return true;
}

bool pfw_probe_path(struct pfw_path_probe *probe, uint16_t call, int dirfd, const char *path)
{
	(void)dirfd;
	(void)path;
	if (pfw_thread.vfork_child ||
	    (!atomic_load_explicit(&pfw_switches->io, memory_order_acquire) &&
	     (pfw_switches_off(&pfw_switches->io) || !alive())))
		return false;
	probe->probe.call = pfw_call_filter[call];
	probe->probe.name = 0;
	probe->probe.t0 = pfw_clock_ticks();
	return true;
}

bool pfw_probe_on(void)
{
	uint64_t word = atomic_load_explicit(&pfw_switches->io, memory_order_relaxed);

	return word && !pfw_thread.vfork_child;
}

bool pfw_probe_attached;

bool pfw_probe_in_vfork(void)
{
	uint64_t born = atomic_load(&pfw_switches->born);
	bool on = atomic_load(&pfw_switches->io) || atomic_load(&pfw_switches->api);

	return pfw_thread.vfork_child ||
	       ((on || pfw_probe_attached) && born &&
		(born & ((1u << PFW_BORN_BITS) - 1)) != (uint64_t)pfw_os_getpid());
}

/* ---- records ---- */

void pfw_probe_write_direct(void)
{
	if (pfw_probe_host.write_direct)
		pfw_probe_host.write_direct();
}

/* The string arena is full: put the descriptor's name into the record itself. */
static __attribute__((noinline)) void end_by_link(const struct pfw_probe *probe,
						  struct pfw_ending *ending)
{
	struct pfw_probe nameless = *probe;
	char path[512];
	struct pfw_tail name = { .text = path };
	ssize_t n;

	nameless.name = 0;
	n = pfw_fd_read_link((int)ending->value[1], path, sizeof(path));
	if (n > 0 && (size_t)n < sizeof(path)) {
		name.text_bytes = (uint32_t)n;
		ending->name = &name;
		ending->any_name = path[0] != '/';
	}
	pfw_probe_end_full(&nameless, ending);
}

/* The end of a call whose stack is due, or that has no name yet. */
static __attribute__((noinline)) void end_longer(const struct pfw_probe *probe, uint64_t t1,
						 const uint64_t *value, unsigned value_count,
						 int error, enum pfw_ending_stack stack)
{
	struct pfw_ending ending = {
		.value = value, .value_count = value_count, .error = error, .t1 = t1, .stack = stack
	};

	if (PFW_UNLIKELY(probe->name == PFW_NAME_BY_LINK))
		end_by_link(probe, &ending);
	else
		pfw_probe_end_full(probe, &ending);
}

/* The rest of an end where short calls are summed or slow ones cause a dump.  True: nothing is left
 * to do. */
static bool end_by_duration(const struct pfw_probe *probe, uint64_t t1, bool failed,
			    const uint64_t *value, unsigned value_count)
{
	struct pfw_ending ending = {
		.value = value, .value_count = value_count, .t1 = t1, .stack = PFW_STACK_IS_NOT
	};
	uint64_t ticks = t1 - probe->t0;

	if (ticks < pfw_short_ticks)
		return pfw_short_fd(probe, ticks, failed, value);
	if (!pfw_slow_ticks || ticks <= pfw_slow_ticks || probe->name == PFW_NAME_BY_LINK)
		return false;
	ending.error = failed ? errno : 0;
	pfw_probe_end_full(probe, &ending);
	return true;
}

void pfw_probe_end(const struct pfw_probe *probe, bool failed, const uint64_t *value,
		   unsigned value_count)
{
	uint64_t t1 = pfw_clock_ticks(), position;
	unsigned slots = value_count > PFW_RECORD_VALUES ? 2 : 1;
	struct pfw_record *record;

	if (PFW_UNLIKELY(probe->call == PFW_CALL_NONE))
		return;
	if (pfw_stack_due(&pfw_thread.stack, t1 - probe->t0)) {
		end_longer(probe, t1, value, value_count, failed ? errno : 0, PFW_STACK_IS_DUE);
		return;
	}
	/* A handler may have forked and returned in the child, the session may have changed, or the
	 * duration matters. */
	if (PFW_UNLIKELY(atomic_load_explicit(&pfw_switches->end, memory_order_relaxed) !=
			 pfw_thread.live) &&
	    (!pfw_probe_ready(&pfw_switches->io) ||
	     end_by_duration(probe, t1, failed, value, value_count)))
		return;
	if (PFW_UNLIKELY(probe->name == PFW_NAME_BY_LINK)) {
		end_longer(probe, t1, value, value_count, failed ? errno : 0, PFW_STACK_IS_NOT);
		return;
	}
	record = pfw_ring_reserve(pfw_thread.ring, slots, &position);
	if (PFW_UNLIKELY(!record))
		return;
	record->template = probe->call;
	record->slots = (uint8_t)slots;
	record->flags = 0;
	record->t0 = probe->t0;
	record->dur = t1 - probe->t0;
	record->file = probe->name;
	record->error = PFW_UNLIKELY(failed) ? errno : 0;
	for (unsigned i = 0; i < PFW_RECORD_VALUES && i < value_count; i++)
		record->value[i] = value[i];
	if (PFW_UNLIKELY(slots > 1))
		memcpy(record + 1, value + PFW_RECORD_VALUES,
		       (value_count - PFW_RECORD_VALUES) * sizeof(*value));
	pfw_probe_commit(record, position);
}

static size_t text_bytes(const struct pfw_tail *text)
{
	return text->text_bytes + (text->directory_bytes ? text->directory_bytes + 1u : 0u);
}

static char *put_text(char *out, const struct pfw_tail *text)
{
	if (text->directory_bytes) {
		memcpy(out, text->directory, text->directory_bytes);
		out += text->directory_bytes;
		*out++ = '/';
	}
	memcpy(out, text->text, text->text_bytes);
	return out + text->text_bytes;
}

static bool filter_text(const struct pfw_tail *name)
{
	size_t bytes = text_bytes(name);
	char joined[JOINED_BYTES], *longer = NULL;
	bool traced;

	if (!name->directory_bytes)
		return pfw_path_filter_path(name->text, bytes);
	if (bytes > sizeof(joined))
		longer = pfw_os_map(bytes);
	if (bytes > sizeof(joined) && !longer)
		return true;
	put_text(longer ? longer : joined, name);
	traced = pfw_path_filter_path(longer ? longer : joined, bytes);
	if (longer)
		pfw_os_munmap(longer, bytes);
	return traced;
}

bool pfw_probe_text_traced(const struct pfw_tail *name)
{
	return !name || filter_text(name);
}

/* Bytes of the record after its first slot. */
static size_t tail_bytes(const struct pfw_ending *ending, uint32_t stack)
{
	size_t bytes = stack ? sizeof(stack) : 0;

	if (ending->value_count > PFW_RECORD_VALUES)
		bytes += (ending->value_count - PFW_RECORD_VALUES) * sizeof(uint64_t);
	if (ending->name)
		bytes += text_bytes(ending->name);
	for (unsigned i = 0; i < ending->text_count; i++)
		bytes += text_bytes(&ending->text[i]);
	return bytes;
}

/* The values in order; STRING fields get the lengths of the texts. */
static void put_values(struct pfw_record *record, uint16_t call, const struct pfw_ending *ending)
{
	size_t calls;
	const struct pfw_call_info *info = &pfw_calls_info(&calls)[call];
	unsigned head = 1u + info->has_fd, text = 0;
	uint64_t *tail = (uint64_t *)(record + 1);

	for (unsigned i = 0; i < ending->value_count; i++) {
		uint64_t value = ending->value[i];

		if (i >= head && info->field[i - head].type == PFW_TYPE_STRING)
			value = text < ending->text_count ? text_bytes(&ending->text[text++]) : 0;
		if (i < PFW_RECORD_VALUES)
			record->value[i] = value;
		else
			tail[i - PFW_RECORD_VALUES] = value;
	}
}

/* The data after the first slot, and after the values. */
static void put_tail(struct pfw_record *record, const struct pfw_ending *ending, uint32_t stack)
{
	char *out = (char *)(record + 1);

	if (ending->value_count > PFW_RECORD_VALUES)
		out += (ending->value_count - PFW_RECORD_VALUES) * sizeof(uint64_t);
	if (ending->name)
		out = put_text(out, ending->name);
	for (unsigned i = 0; i < ending->text_count; i++)
		out = put_text(out, &ending->text[i]);
	if (stack)
		memcpy(out, &stack, sizeof(stack));
}

static void end_with(const struct pfw_probe *probe, const struct pfw_ending *ending, uint64_t ticks,
		     uint32_t stack)
{
	size_t slots = 1 + (tail_bytes(ending, stack) + PFW_SLOT_BYTES - 1) / PFW_SLOT_BYTES;
	struct pfw_record *record;
	uint64_t position;

	if (slots > PFW_RECORD_SLOTS_MAX) {
		pfw_ring_count_lost(PFW_LOST_TOO_LONG, 1);
		return;
	}
	record = pfw_ring_reserve(pfw_thread.ring, (unsigned)slots, &position);
	if (!record)
		return;
	record->template = probe->call;
	record->slots = (uint8_t)slots;
	record->flags = ending->flags | (ending->name ? PFW_RECORD_NAME_INLINE : 0) |
			(stack ? PFW_RECORD_STACK : 0);
	record->t0 = probe->t0;
	record->dur = ticks;
	record->file = ending->name ? (uint32_t)text_bytes(ending->name) : probe->name;
	record->error = ending->error;
	put_values(record, probe->call, ending);
	put_tail(record, ending, stack);
	pfw_probe_commit(record, position);
}

void pfw_probe_end_full(const struct pfw_probe *probe, const struct pfw_ending *ending)
{
	uint64_t ticks = (ending->t1 ? ending->t1 : pfw_clock_ticks()) - probe->t0;
	bool due;

	if (probe->call == PFW_CALL_NONE ||
	    (ending->name && !ending->any_name && !filter_text(ending->name)) ||
	    !pfw_probe_ready(&pfw_switches->io))
		return;
	if (ticks < pfw_short_ticks && pfw_short_call(probe, ticks, ending))
		return;
	due = ending->stack == PFW_STACK_ASK ? pfw_stack_due(&pfw_thread.stack, ticks)
					     : ending->stack == PFW_STACK_IS_DUE;
	end_with(probe, ending, ticks, due ? pfw_stack_take(&pfw_thread.stack) : 0);
	if (pfw_slow_ticks && ticks > pfw_slow_ticks && pfw_probe_host.slow)
		pfw_probe_host.slow(probe->call, ticks);
}

/* ---- paths ---- */

/*
 * The length of the caller's path; -1: unreadable.  If the call worked, or failed with one of the
 * usual errors, the kernel has read the path.  The errors listed here may come before that, so the
 * kernel copies the path first: a bad pointer must fail with EFAULT, not crash us.
 */
static ssize_t path_length(const char *path, int error)
{
	char buf[64];
	size_t bytes = 0;

	if (!path)
		return 0;
	if (error != EFAULT && error != EINVAL && error != EBADF && error != ENOSYS &&
	    error != EOPNOTSUPP && error != ENOMEM && error != EMFILE)
		return (ssize_t)strnlen(path, PATH_BYTES);
	while (bytes < PATH_BYTES) {
		/* Up to the next multiple of buf: never across a page. */
		size_t step = sizeof(buf) - ((uintptr_t)path + bytes) % sizeof(buf), n;

		if (!pfw_peek(buf, path + bytes, step))
			return -1;
		n = strnlen(buf, step);
		bytes += n;
		if (n < step)
			break;
	}
	return (ssize_t)bytes;
}

/* The directory that (dirfd)'s relative paths start from, into the probe's scratch; 0 = unknown. */
static size_t directory_of(struct pfw_path_probe *probe, int dirfd)
{
	uint64_t entry;
	uint32_t bytes = 0;
	const char *text;
	ssize_t n;

	if (dirfd == AT_FDCWD) {
		n = pfw_os_getcwd(probe->cwd, sizeof(probe->cwd));
		return n > 0 && probe->cwd[0] == '/' ? (size_t)n : 0;
	}
	/* Prefer the table's name, which the fd's own events have.  Hold it: another thread may be
	 * closing the descriptor. */
	entry = pfw_fd_load(dirfd);
	if (pfw_fd_state(entry) == PFW_FD_TRACED && pfw_string_hold(pfw_fd_name(entry))) {
		text = pfw_strings_text(pfw_fd_name(entry), &bytes);
		if (text && text[0] == '/' && bytes < sizeof(probe->cwd))
			memcpy(probe->cwd, text, bytes);
		else
			bytes = 0;
		pfw_string_drop(pfw_fd_name(entry));
	}
	if (bytes)
		return bytes;
	n = pfw_fd_read_link(dirfd, probe->cwd, sizeof(probe->cwd));
	return n > 0 && probe->cwd[0] == '/' && (size_t)n < sizeof(probe->cwd) ? (size_t)n : 0;
}

void pfw_probe_path_text(struct pfw_path_probe *probe, int dirfd, const char *path,
			 struct pfw_tail *out)
{
	ssize_t length = path_length(path, probe->error);
	size_t bytes = length > 0 ? (size_t)length : 0, directory;

	*out = (struct pfw_tail){ .text = bytes ? path : "", .text_bytes = (uint32_t)bytes };
	if (length < 0 || (bytes && path[0] == '/'))
		return;
	if (!bytes && path && probe->error == ENOENT) /* an empty path names nothing */
		return;
	while (bytes >= 2 && path[0] == '.' && path[1] == '/') {
		path += 2;
		bytes -= 2;
	}
	directory = directory_of(probe, dirfd);
	if (!bytes) { /* the directory itself */
		*out = (struct pfw_tail){ .text = probe->cwd, .text_bytes = (uint32_t)directory };
	} else if (directory == 1 &&
		   bytes < sizeof(probe->cwd)) { /* in "/": a second slash is not needed */
		memcpy(probe->cwd + 1, path, bytes);
		*out = (struct pfw_tail){ .text = probe->cwd, .text_bytes = (uint32_t)bytes + 1 };
	} else {
		*out = (struct pfw_tail){ probe->cwd, path, (uint32_t)directory, (uint32_t)bytes };
	}
}

/* The stat of its start directory that a Python makes with each import. */
static bool is_look(uint16_t call, const struct pfw_tail *name)
{
	size_t calls;

	return call != PFW_CALL_NONE && !name->directory_bytes &&
	       !strcmp(pfw_calls_info(&calls)[call].canonical, "stat") &&
	       pfw_path_filter_looks(name->text, name->text_bytes);
}

void pfw_probe_path_end(struct pfw_path_probe *probe, bool failed, int dirfd, const char *path,
			const uint64_t *value, unsigned value_count)
{
	struct pfw_ending ending = { .value = value, .value_count = value_count };
	struct pfw_tail name;

	ending.t1 = pfw_clock_ticks();
	ending.error = failed ? errno : 0;
	probe->error = ending.error;
	if (ending.error != EFAULT) {
		pfw_probe_path_text(probe, dirfd, path, &name);
		if (is_look(probe->probe.call, &name))
			return;
		if (text_bytes(&name))
			ending.name = &name;
	}
	pfw_probe_end_full(&probe->probe, &ending);
}

uint32_t pfw_probe_opened(struct pfw_path_probe *probe, int fd, int dirfd, const char *path,
			  bool traced)
{
	uint32_t generation = __atomic_load_n(&pfw_fd_generation, __ATOMIC_ACQUIRE);
	struct pfw_tail name;
	uint32_t ref = 0;

	if (traced) {
		probe->error = 0; /* it is open: the kernel has read the path */
		pfw_probe_path_text(probe, dirfd, path, &name);
		traced = filter_text(&name);
	}
	if (traced && pfw_probe_names())
		ref = pfw_string_create(name.directory, name.directory_bytes, name.text,
					name.text_bytes);
	if (!traced)
		probe->probe.call = PFW_CALL_NONE;
	/* Traced without a string (the arena is full): unknown, so each use resolves it. */
	pfw_fd_store(fd, !traced ? PFW_FD_UNTRACED : ref ? PFW_FD_TRACED : PFW_FD_UNKNOWN, ref);
	/* pfw_start() may have changed the filter meanwhile. */
	if (PFW_UNLIKELY(generation != __atomic_load_n(&pfw_fd_generation, __ATOMIC_ACQUIRE)))
		pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
	return ref;
}
