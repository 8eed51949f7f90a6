/* tools/attach/inject.c - stops one thread of a process and leads it through stub.c: see inject.h.
 *
 * The thread is one that the stub may start a thread in: see thread.h.  One change of its registers
 * leads it into the stub, and at the same moment this command lets go of it.
 */
#include "attach/inject.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "attach/stub.h"
#include "attach/thread.h"
#include "common/format/clock.h"

#define TRY_NS 20000000000ull	 /* to find a thread at a safe point */
#define CALLS_NS 500000000ull	 /* of that, until those are looked at that compute */
#define LOOK_NS 3000000000ull	 /* of that, until threads are made to go on to a call */
#define NAPS 200		 /* of a millisecond, for a thread that stops late */
#define REFUSED_NS 1000000000ull /* for how long ptrace() may refuse each thread */
#define ANSWER_NS 20000000000ull /* to load the recorder and to begin */
#define BEGIN_NS 1000000000ull	 /* for our thread to begin */
#define GONE "the process has ended, or begun another program (exec)"
#define LEAVE_NS 3000000000ull /* for our thread to end */

/* ---- the code ---- */

_Static_assert(sizeof(struct stub_lender) <= PADDING_LENDER, "its place");

#define WORD_BYTES 16u
#define SLOTS_MAX 32u /* values of that many attachments are kept apart */
#define PLACE_NS 10000000000ull

struct code {
	const char *text;
	size_t bytes; /* a multiple of 16; behind them a word for the lender, then the slots of values */
	uint64_t place; /* of the code */
	uint64_t slot;	/* of the values for this attachment */
	uint64_t data;	/* for struct stub_lender; 0 = none */
	bool there;	/* an earlier command has laid the code */
	struct stub_values values;
};

static struct lender lender_of(const struct code *code)
{
	return (struct lender){ code->place, code->place + code->bytes, code->data };
}

/* Find the code of an earlier command, else room for it: rather where nothing is ever unloaded.  False:
 * there is neither. */
static bool find_place(const struct tracee *tracee, struct code *code)
{
	struct padding *all = calloc(PADDINGS_MAX, sizeof(*all));
	size_t count = all ? padding_list(tracee, all) : 0;
	char *there = malloc(code->bytes);
	bool stays = false;

	for (size_t i = 0; there && i < count && !code->there; i++) {
		if (all[i].code_bytes < code->bytes + WORD_BYTES + sizeof(struct stub_values) ||
		    !tracee_read(tracee, all[i].code, there, code->bytes))
			continue;
		code->there = !memcmp(there, code->text, code->bytes);
		if (code->there || !code->place || (all[i].stays && !stays)) {
			code->place = all[i].code;
			stays = all[i].stays;
		}
	}
	if (code->there)
		tracee_read(tracee, lender_of(code).word, &code->data, sizeof(code->data));
	for (size_t i = 0; i < count && !code->data; i++)
		if (all[i].stays && all[i].data)
			code->data = all[i].data + all[i].data_bytes;
	free(there);
	free(all);
	return code->place != 0;
}

/* The block that our thread of this slot has mapped.  The program may have taken the place for itself: its
 * memory says nothing, and must not be written to. */
static bool read_head(const struct tracee *tracee, uint64_t slot, uint64_t block,
		      struct pfw_attach_head *head)
{
	return tracee_read(tracee, block, head, sizeof(*head)) && head->values == slot;
}

/*
 * Choose the slot that was used longest ago, or never.  False: its attachment is still going on.  One command
 * at a time works on a process, so the commands of such attachments were killed: their threads may go.
 */
static bool find_slot(const struct tracee *tracee, struct code *code, bool *others)
{
	const struct tracee_map *map = tracee_map_of(tracee, code->place);
	uint64_t at = code->place + code->bytes + WORD_BYTES, newest = 0, oldest = UINT64_MAX;
	static const uint64_t yes = 1;
	struct stub_values values;
	struct pfw_attach_head head;
	bool busy, found = false;

	*others = false;
	for (unsigned i = 0; i < SLOTS_MAX && at + sizeof(values) <= map->end;
	     i++, at += sizeof(values)) {
		if (!code->there || !tracee_read(tracee, at, &values, sizeof(values)))
			values = (struct stub_values){ .number = 0 };
		busy = values.number && read_head(tracee, at, values.block, &head);
		*others |= busy &&
			   tracee_write(tracee, at + offsetof(struct stub_values, dismissed), &yes,
					sizeof(yes));
		if (values.number < oldest) {
			oldest = values.number;
			code->slot = at;
			found = !busy;
		}
		newest = values.number > newest ? values.number : newest;
	}
	code->values.number = newest + 1;
	return found;
}

static int await_slot(struct tracee *tracee, struct code *code)
{
	uint64_t until = pfw_clock_ns(CLOCK_MONOTONIC) + PLACE_NS;
	bool others, found;

	while ((!(found = find_slot(tracee, code, &others)) || others) &&
	       pfw_clock_ns(CLOCK_MONOTONIC) < until)
		thread_nap(tracee, NULL);
	if (!found)
		return tracee_refuse(
			tracee, "what killed `pfw attach` commands have left in it does not end");
	return tracee_read_maps(tracee) ? tracee_refuse(tracee, GONE) : 0;
}

static int prepare(struct tracee *tracee, struct code *code)
{
	struct stub_values *values = &code->values;

	code->text = stub_text(&code->bytes);
	*values = (struct stub_values){
		.block = tracee_free_place(tracee, PFW_ATTACH_BYTES),
		.block_bytes = PFW_ATTACH_BYTES,
		.save_bytes = thread_save_bytes(),
		.pthread_create = tracee_function(tracee, "pthread_create"),
		.pthread_detach = tracee_function(tracee, "pthread_detach"),
		.attr_init = tracee_function(tracee, "pthread_attr_init"),
		.attr_setstack = tracee_function(tracee, "pthread_attr_setstack"),
		.dlopen = tracee_function(tracee, "dlopen"),
		.dlsym = tracee_function(tracee, "dlsym"),
		.dlerror = tracee_function(tracee, "dlerror"),
		.dlclose = tracee_function(tracee, "dlclose"),
		.dladdr = tracee_function(tracee, "dladdr"),
	};
	if (!tracee_function(tracee, "read"))
		return tracee_refuse(tracee, GONE);
	if (!values->pthread_create || !values->pthread_detach || !values->attr_init ||
	    !values->attr_setstack || !values->dlopen || !values->dlsym || !values->dlerror ||
	    !values->dlclose || !values->dladdr)
		return tracee_refuse(
			tracee, "its libc (before 2.34) is loaded without threads or dlopen(): "
				"start the program with `pfw run`");
	if (!values->save_bytes)
		return tracee_refuse(
			tracee, "this processor has no XSAVE: start the program with `pfw run`");
	if (!find_place(tracee, code) || !values->block)
		return tracee_refuse(tracee, "it has no room for %zu bytes of code", code->bytes);
	if (await_slot(tracee, code))
		return -1;
	lender_place(tracee, values);
	return 0;
}

/* ---- one thread ---- */

struct search {
	struct tracee *tracee;
	struct code *code;
	bool blocked;	       /* look only at threads that wait in a system call */
	struct frames *frames; /* look at threads that compute, instead; NULL = do not */
	bool steps;	       /* let a thread run up to a system call */
	uint64_t until;
	int error;     /* of the last PTRACE_SEIZE that failed */
	bool filtered; /* a thread's seccomp filters forbid it */
};

/* Everything but what is known of the thread only when it stands still. */
static bool lay(struct tracee *tracee, const struct code *code)
{
	struct lender lender = lender_of(code);

	if ((!code->there && !tracee_write(tracee, code->place, code->text, code->bytes)) ||
	    !tracee_write(tracee, code->slot, &code->values, sizeof(code->values)))
		return false;
	tracee->lends = lender_begin(tracee, &lender);
	return true;
}

/* Lead the thread into the code.  It has not been resumed since it was found to be safe. */
static bool lead(struct search *search, struct thread *thread)
{
	struct code *code = search->code;
	struct stub_values *values = &code->values;

	thread_resumes_at(thread, &values->pc, &values->rax);
	values->r11 = thread_r11(thread);
	return tracee_write(search->tracee, code->slot, values,
			    offsetof(struct stub_values, block)) &&
	       thread_lead(thread, code->place, code->slot);
}

/* 1: the stopped thread goes through the code; 0: not this one, or not now. */
static int use_thread(struct search *search, struct thread *thread)
{
	bool computes = search->frames && !search->blocked;
	int led = 0;

	if (computes ? thread_stand(thread) && thread_computes(thread) &&
			       frames_are_free(search->frames, thread)
		     : thread_to_safe_point(thread, search->steps)) {
		search->filtered = !thread_may(thread);
		led = search->filtered ? -1 : lead(search, thread);
	}
	thread_release(thread);
	return led;
}

static int try_thread(void *user, pid_t tid)
{
	struct search *search = user;
	struct thread thread;

	if (pfw_clock_ns(CLOCK_MONOTONIC) > search->until)
		return -1;
	if (search->blocked && !thread_waits(search->tracee, tid))
		return 0;
	if (thread_stop(&thread, search->tracee, tid)) {
		/* Late threads are still traced by this command. */
		search->error = search->tracee->late ? 0 : errno;
		return 0;
	}
	search->error = 0;
	return use_thread(search, &thread);
}

/* Threads that wait in a call first: they are there already.  Those that compute come last. */
static int find_thread_by(struct search *search)
{
	struct tracee *tracee = search->tracee;
	struct thread late;
	bool opened = false;
	int led = 0;

	if (!lay(tracee, search->code))
		return tracee_refuse(tracee, "it has ended");
	search->until = pfw_clock_ns(CLOCK_MONOTONIC) + TRY_NS;
	while (!led) {
		/* Each step is a stop more, which may last on a busy machine: rather look again. */
		search->steps = tracee->first ||
				search->until - pfw_clock_ns(CLOCK_MONOTONIC) < TRY_NS - LOOK_NS;
		search->blocked = !search->blocked;
		if (!opened && search->until - pfw_clock_ns(CLOCK_MONOTONIC) < TRY_NS - CALLS_NS) {
			search->frames = frames_open(tracee);
			opened = true;
		}
		led = tracee_threads(tracee->pid, try_thread, search);
		if (kill(tracee->pid, 0) < 0 && errno == ESRCH)
			return tracee_refuse(tracee, "it has ended");
		if (search->filtered)
			return tracee_refuse(
				tracee, "a seccomp filter may kill it for what the recorder "
					"does, or cannot be read: run it as root, or start the "
					"program with `pfw run`");
		/* A thread that ends is refused, too. */
		if (search->error == EPERM &&
		    search->until - pfw_clock_ns(CLOCK_MONOTONIC) < TRY_NS - REFUSED_NS)
			return tracee_refuse(tracee,
					     "ptrace() is not allowed: run it as root (in a "
					     "container: with CAP_SYS_PTRACE)");
		/* A late thread would be let go if it stopped during the turn of another thread. */
		for (int i = 0; !led && i < NAPS && (!i || tracee->late); i++)
			if (thread_nap(tracee, &late))
				led = use_thread(search, &late);
	}
	if (led < 0)
		return tracee_refuse(
			tracee,
			"none of its threads came to a safe point within %llu seconds (a system call of "
			"libc's, or code outside of libc whose stack libdw can follow): try again, or "
			"start the program with `pfw run`",
			TRY_NS / 1000000000);
	return 0;
}

static int find_thread(struct tracee *tracee, struct code *code)
{
	struct search search = { .tracee = tracee, .code = code };
	int error = find_thread_by(&search);

	frames_close(search.frames);
	return error;
}

/* ---- the conversation ---- */

/* The message of our thread. */
static uint32_t state_of(const struct tracee *tracee, const struct code *code)
{
	struct pfw_attach_head head;

	return read_head(tracee, code->slot, code->values.block, &head) ? head.state
									: PFW_ATTACH_NEW;
}

static bool await(struct tracee *tracee, const struct code *code, uint32_t least, uint64_t ns)
{
	uint64_t until = pfw_clock_ns(CLOCK_MONOTONIC) + ns;

	while (state_of(tracee, code) < least) {
		uint32_t any;

		/* After an exec the memory is gone, and the process is not. */
		if (pfw_clock_ns(CLOCK_MONOTONIC) > until ||
		    !tracee_read(tracee, code->place, &any, sizeof(any)))
			return false;
		thread_nap(tracee, NULL);
	}
	return true;
}

static void set_state(const struct tracee *tracee, const struct code *code, uint32_t state)
{
	tracee_write(tracee, code->values.block, &state, sizeof(state));
}

/* Everything but the members that the thread has set. */
static bool fill(const struct tracee *tracee, const struct code *code,
		 const struct pfw_attach_block *block)
{
	size_t from = sizeof(block->head);

	if (!tracee_write(tracee, code->values.block + from, (const char *)block + from,
			  sizeof(*block) - from))
		return false;
	set_state(tracee, code, PFW_ATTACH_FILLED);
	return true;
}

static int read_answer(struct tracee *tracee, const struct code *code,
		       struct pfw_attach_block *block)
{
	char text[384] = "";

	if (!tracee_read(tracee, code->values.block, block, sizeof(*block)))
		return tracee_refuse(tracee, GONE);
	switch (block->head.state) {
	case PFW_ATTACH_NOT_LOADED:
		tracee_read(tracee, block->head.dlerror, text, sizeof(text) - 1);
		return tracee_refuse(tracee, "the recorder cannot be loaded into it: %s", text);
	case PFW_ATTACH_NO_ENTRY:
		return tracee_refuse(tracee, "%.200s is of another version than this command",
				     block->library);
	default:
		return 0;
	}
}

/* Our thread ends; `pfw detach` and `pfw attach` shall find none of it. */
static void await_end(struct tracee *tracee, pid_t tid)
{
	uint64_t until = pfw_clock_ns(CLOCK_MONOTONIC) + LEAVE_NS;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)tracee->pid, (int)tid);
	while (access(path, F_OK) == 0 && pfw_clock_ns(CLOCK_MONOTONIC) < until)
		thread_nap(tracee, NULL);
}

/* One command at a time works on a process.  The name is given back with the descriptor. */
static int lock(struct tracee *tracee)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "pfw-attach-%d", (int)tracee->pid);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0 &&
	    errno == EADDRINUSE) {
		close(fd);
		return tracee_refuse(tracee, "another pfw is attaching to it or detaching from it");
	}
	return fd;
}

/* Start our thread.  The program may take the block's place meanwhile: then once more. */
static int begin(struct tracee *tracee, void *arg)
{
	struct code *code = arg;

	for (int tries = 0; tries < 5; tries++) {
		*code = (struct code){ .there = false };
		if (tracee_read_maps(tracee) || prepare(tracee, code) || find_thread(tracee, code))
			return -1;
		if (await(tracee, code, PFW_ATTACH_WAITING, BEGIN_NS))
			return 0;
		if (!tracee_function(tracee, "read"))
			return tracee_refuse(tracee, GONE);
	}
	return tracee_refuse(tracee,
			     "it could not start a thread (seccomp, RLIMIT_AS, RLIMIT_NPROC)");
}

/* ---- a thread of this command for what stops threads ---- */

struct task {
	int (*run)(struct tracee *tracee, void *arg);
	struct tracee *tracee;
	void *arg;
	int error;
};

#define POPULATE 22 /* MADV_POPULATE_READ of Linux 5.14 */

/* Our own code, so that none of it is read from a disk while a thread stands still. */
static int populate(struct dl_phdr_info *info, size_t size, void *user)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	(void)size;
	(void)user;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uint64_t start = (info->dlpi_addr + part->p_vaddr) & ~(page - 1);

		if (part->p_type == PT_LOAD)
			madvise((void *)(uintptr_t)start,
				info->dlpi_addr + part->p_vaddr + part->p_memsz - start, POPULATE);
	}
	return 0;
}

/* struct sched_attr of the kernel */
struct turns {
	uint32_t bytes, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

#define TURN_NS 1000000u

/* While a thread stands still this one runs before others, if the system allows.  Without that right it
 * asks for short turns, which come sooner (since Linux 6.12). */
static void *run_first(void *arg)
{
	const struct sched_param first = { .sched_priority = 1 };
	const struct turns turns = { .bytes = sizeof(turns), .runtime = TURN_NS };
	struct task *task = arg;

	dl_iterate_phdr(populate, NULL);
	task->tracee->first = !sched_setscheduler(0, SCHED_FIFO, &first);
	if (!task->tracee->first)
		syscall(SYS_sched_setattr, 0, &turns, 0);
	task->error = task->run(task->tracee, task->arg);
	return NULL;
}

/* run() in a thread of its own: when this thread ends, the kernel lets go of threads that have not stopped. */
static int run_watched(struct tracee *tracee, int (*run)(struct tracee *tracee, void *arg),
		       void *arg)
{
	struct task task = { run, tracee, arg, -1 };
	pthread_t thread;

	if (thread_watch_begin(tracee))
		return -1;
	if (!pthread_create(&thread, NULL, run_first, &task))
		pthread_join(thread, NULL);
	else
		tracee_refuse(tracee, "no thread to look at it: %s", strerror(EAGAIN));
	thread_watch_end(tracee);
	tracee->late = 0;
	return task.error;
}

/* ---- unloading ---- */

#define OUTSIDE_NS \
	2000000000ull  /* for all threads to be seen outside: less than our thread waits */
#define OUTSIDE_NAP 5u /* milliseconds between two looks at a thread */

struct inside {
	struct tracee *tracee;
	const struct pfw_attach_block *block;
	pid_t *seen; /* threads that were outside once: they are for good */
	size_t seen_count, seen_room;
	bool all;
	pid_t last; /* one that was not */
};

static bool was_outside(const struct inside *inside, pid_t tid)
{
	for (size_t i = 0; i < inside->seen_count; i++)
		if (inside->seen[i] == tid)
			return true;
	return false;
}

static void note_outside(struct inside *inside, pid_t tid)
{
	pid_t *more = inside->seen;

	if (inside->seen_count == inside->seen_room) {
		inside->seen_room = 2 * inside->seen_room + 64;
		more = realloc(more, inside->seen_room * sizeof(*more));
	}
	if (!more)
		return;
	inside->seen = more;
	inside->seen[inside->seen_count++] = tid;
}

/* The ends of threads are no reason to stay: the next list has not got them. */
static int look_outside(void *user, pid_t tid)
{
	struct inside *inside = user;
	struct thread thread;

	if (tid == inside->block->head.tid || tid == inside->block->head.reaper ||
	    was_outside(inside, tid))
		return 0;
	inside->all = false;
	inside->last = tid;
	if (thread_stop(&thread, inside->tracee, tid))
		return 0;
	if (thread_stand(&thread) &&
	    thread_is_outside(&thread, inside->block->code, inside->block->code_end))
		note_outside(inside, tid);
	thread_release(&thread);
	return 0;
}

/* 0: no thread is in the recorder or will return into it. */
static int find_all_outside(struct tracee *tracee, void *arg)
{
	uint64_t until = pfw_clock_ns(CLOCK_MONOTONIC) + OUTSIDE_NS;
	struct inside inside = { .tracee = tracee, .block = arg };

	while (!inside.all && pfw_clock_ns(CLOCK_MONOTONIC) < until) {
		inside.all = !tracee_read_maps(tracee);
		tracee_threads(tracee->pid, look_outside, &inside);
		for (unsigned i = 0; !inside.all && i < OUTSIDE_NAP; i++)
			thread_nap(tracee, NULL);
	}
	free(inside.seen);
	if (inside.all)
		return 0;
	return tracee_refuse(tracee, "thread %d waits in a call that began before",
			     (int)inside.last);
}

/* The recorder goes, or block->stays says why not. */
static void unload(struct tracee *tracee, const struct code *code, struct pfw_attach_block *block)
{
	const char *why = tracee->why;
	uint32_t wish = PFW_ATTACH_LIST;

	if (block->stays[0])
		return;
	if (!run_watched(tracee, find_all_outside, block)) {
		tracee_write(tracee, code->values.block + offsetof(struct pfw_attach_block, wish),
			     &wish, sizeof(wish));
		set_state(tracee, code, PFW_ATTACH_CLOSE);
		why = "its thread did not answer";
		if (await(tracee, code, PFW_ATTACH_UNLOADED, ANSWER_NS))
			why = state_of(tracee, code) == PFW_ATTACH_UNLOADED
				      ? ""
				      : "a library that was loaded meanwhile leads to it";
	}
	snprintf(block->stays, sizeof(block->stays), "%.200s", why);
}

static int talk(struct tracee *tracee, struct code *code, struct pfw_attach_block *block)
{
	int error;

	if (!tracee_read(tracee, code->values.block, &block->head, sizeof(block->head)))
		return tracee_refuse(tracee, GONE);
	block->starter = tracee->lends ? code->data + offsetof(struct stub_lender, starter) : 0;
	if (block->wish == PFW_ATTACH_BEGIN)
		padding_lay_thunks(tracee, block, code->place);
	if (!fill(tracee, code, block) || !await(tracee, code, PFW_ATTACH_NOT_LOADED, ANSWER_NS)) {
		if (!tracee_read(tracee, code->values.block, &block->head, sizeof(block->head)))
			return tracee_refuse(tracee, GONE);
		return tracee_refuse(tracee,
				     "the recorder did not answer; look whether it records with "
				     "`pfw ctl %d status`",
				     (int)tracee->pid);
	}
	error = read_answer(tracee, code, block);
	if (!error && block->leaves)
		unload(tracee, code, block);
	set_state(tracee, code, PFW_ATTACH_SEEN);
	await_end(tracee, block->head.tid);
	await_end(tracee, block->head.reaper);
	return error;
}

static void unlock(struct tracee *tracee, const struct code *code, int fd)
{
	struct lender lender = lender_of(code);

	if (!tracee_read_maps(tracee))
		lender_end(tracee, &lender);
	close(fd);
}

int inject(struct tracee *tracee, struct pfw_attach_block *block)
{
	struct code code = { .there = false };
	int fd = lock(tracee), error;

	if (fd < 0)
		return -1;
	memcpy(block->entry, PFW_ATTACH_ENTRY, sizeof(PFW_ATTACH_ENTRY));
	block->version = PFW_ATTACH_VERSION;
	error = run_watched(tracee, begin, &code) || talk(tracee, &code, block) ? -1 : 0;
	unlock(tracee, &code, fd);
	return error;
}

void inject_clear(struct tracee *tracee)
{
	struct code code = { .there = false };
	int fd = lock(tracee);

	code.text = stub_text(&code.bytes);
	if (fd >= 0 && find_place(tracee, &code) && code.there)
		await_slot(tracee, &code);
	if (fd >= 0)
		unlock(tracee, &code, fd);
}
