/* probe.h - what every wrapper does around the real call: is it traced, when did it begin, record.
 *
 * A wrapper is: begin (inline, a few loads; false = pass through), the real call, end (one record
 * into this thread's ring).  Both keep errno; end reads it where the call failed.  Nothing is held
 * between begin and end, so the call may block, be interrupted by a handler that does I/O itself,
 * be cancelled or be jumped out of.
 */
#ifndef PFW_PROBE_H
#define PFW_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../clock.h"
#include "../os.h"
#include "../ring.h"
#include "fd_table.h"

/*
 * What a fork wipes: the words the hot path reads first, in a private MADV_WIPEONFORK page.  `born`
 * is never 0 in a process that has set itself up, so io == 0 with born == 0 means "a forked child,
 * by whatever route", and with born != 0 just "off".
 */
struct pfw_live {
	_Atomic uint64_t io;  /* generation of the I/O probes, 0 = off */
	_Atomic uint64_t api; /* generation of the API, 0 = off */
	/* What an I/O probe finds at its end: io's word, or one that no thread has where the end has
	 * more to do (PFW_MIN_DUR).  So nobody else pays for the question. */
	_Atomic uint64_t end;
	_Atomic uint64_t born;
	_Atomic uint32_t claimed; /* a thread of the forked child is setting it up */
};
extern struct pfw_live *pfw_live;

/* A name this thread has used: found again by its address, believed after a comparison. */
struct pfw_known_name {
	const char *from; /* the caller's pointer */
	const char *text; /* the interned text, NUL-terminated */
	uint32_t ref;
};
#define PFW_KNOWN_NAMES 4

/* Span ids of a thread are this far apart: its ring's number is below (first_span() in probe.c). */
#define PFW_SPAN_ID_STEP 256u

/* From the beginning of fork until its event is recorded no thread of ours is started; where it begins,
 * the writer's work is left for its end. */
enum pfw_forking { PFW_FORK_BEGINS = 1, PFW_FORK_ENDS = 2 };

/* One thread's state.  initial-exec: a lazily allocated TLS block would call malloc in a probe. */
struct pfw_thread {
	uint64_t live; /* the session generation under which `ring` is ours; 0 = none */
	struct pfw_ring *ring;
	uint64_t born;	      /* pfw_live's, of the process whose ring it is */
	uint64_t span;	      /* innermost open API span, 0 = none */
	uint64_t spans;	      /* the id of the next span it begins */
	uint64_t guarded;     /* the slow path is at work in this thread */
	uint32_t vfork_child; /* this is a vfork child in its parent's memory: touch nothing */
	uint32_t forking;     /* enum pfw_forking */
	const char *untraced; /* a vfork child runs a program that is not traced, and why */
	char *const *left;    /* the environment that it made for its program */
	uint32_t gpu_begun;   /* of pfw_cupti_spans, when gpu_pushed was 0 */
	uint32_t gpu_pushed;  /* ids on CUPTI's stack of this thread */
	uint32_t annotation;  /* the string of NVTX's category; 0 = not known */
	struct pfw_nvtx_stack *nvtx;
	struct pfw_known_name known[PFW_KNOWN_NAMES];
	struct pfw_known_name known_category;
};
/* glibc keeps 1,664 bytes for objects loaded late; other tools want some of them too. */
_Static_assert(sizeof(struct pfw_thread) <= 256, "TLS block");
extern __thread struct pfw_thread pfw_thread __attribute__((tls_model("initial-exec")));

/* This thread is the one that a forked child has from its parent: nothing of it is the child's. */
void pfw_thread_forked(void);

/* What session hands to the probes: they never call it by name (include law). */
struct pfw_probe_host {
	/* First probe in a forked child: make the child a process of its own. */
	void (*forked)(void);
	/* Nobody drains, and this thread has recorded one more: write it now. */
	void (*straight)(void);
	/* Whether this process has anything in its trace, or in a ring. */
	bool (*recorded)(void);
	/* Finish the trace now (before exec, _exit), and go on with it (exec has failed).  `followed`:
	 * by a traced program, which cleans up. */
	void (*end)(const char *reason, const char *exec_path, bool followed);
	void (*resume)(void);
	/* Note that this thread holds a ring, so that its death gives the ring back. */
	void (*thread_born)(void);
	/* Our files must stay in reach: root, mounts or user are about to change.  False: a thread
	 * of ours shares the program's root and directory. */
	bool (*stay_behind)(void);
	/* The user has changed. */
	void (*user_changed)(void);
	/* No thread of ours (true), until the same thread says that there may be one again. */
	void (*be_gone)(bool gone);
	/* The program begins what counts as a step. */
	void (*step)(bool automatic);
	/* The program is inside a range of cudaProfilerStart() and -Stop(), or no longer. */
	void (*range)(bool inside);
	/* The program is about to put another file where a descriptor of ours is. */
	void (*make_way)(int fd);
};
extern struct pfw_probe_host pfw_probe_host;

/* In pfw_live->end: no thread's word. */
#define PFW_LIVE_NOBODY (1ull << 62)

/* In pfw_live's words: the trace is as long as it may be; every event is counted as lost. */
#define PFW_LIVE_LIMIT (1ull << 61)

/* In pfw_live's words: names of spans are looked at, for one that begins a step (PFW_STEP).  Alone in
 * the API's: nothing is recorded, but names are looked at. */
#define PFW_LIVE_STEPS (1ull << 60)

/* In the API's word: a forked child that has no writer yet; each record goes straight through. */
#define PFW_LIVE_YOUNG (1ull << 59)

/* In pfw_live's words: the trace has its end; every record goes straight through. */
#define PFW_LIVE_ENDED (1ull << 63)
#define PFW_LIVE_STRAIGHT (PFW_LIVE_ENDED | PFW_LIVE_YOUNG)

/* pfw_probe.call: it is not to be recorded, as was decided after the call (the filter) or before it
 * (PFW_CALLS, where the wrapper is needed all the same). */
#define PFW_CALL_NONE 0xffffu

/* pfw_probe.name: there was no room for the descriptor's name; ask the kernel at the end. */
#define PFW_NAME_BY_LINK 0xffffffffu

/* A call being traced. */
struct pfw_probe {
	uint64_t t0;   /* ticks */
	uint32_t name; /* string of the spool, 0 = none */
	uint16_t call; /* enum pfw_call: the template */
};

/* Text of a record's tail, in up to two pieces with '/' between (directory, relative path). */
struct pfw_tail {
	const char *directory;
	const char *text;
	uint32_t directory_bytes; /* 0 = text alone */
	uint32_t text_bytes;
};

/* Path probes also hold the directory a relative path is counted from.  Longer ones are found
 * again at the end, straight into the ring: a probe may take no more than 1 KiB of stack. */
#define PFW_CWD_BYTES 512
struct pfw_path_probe {
	struct pfw_probe probe;
	/* errno of the call, 0 = it worked; EFAULT where the kernel has not looked at the path yet.
	 * It says how carefully the path must be read; set before pfw_probe_path_text(). */
	int error;
	char cwd[PFW_CWD_BYTES];
};

/*
 * Make sure this thread can record: the generation in force, or 0 (off, vfork child, no ring).
 * `word` is pfw_live's word for what is to be recorded.  Keeps errno.  Thread: app.  Signal: safe.
 */
uint64_t pfw_probe_ready(const _Atomic uint64_t *word);

/* The same for I/O, to make a name: an event that is lost for it is counted when it is recorded. */
bool pfw_probe_names(void);

/* Write what is recorded now: nobody drains any more, or yet. */
void pfw_probe_straight(void);

/* Hand a filled record over: mark it, and see to it where nobody else does: the trace has its end
 * already (since this call began, say), or has just begun.  Thread: app.  Signal: safe. */
static inline void pfw_probe_commit(struct pfw_record *record, uint64_t position)
{
	pfw_ring_commit(record, position);
	if (PFW_UNLIKELY(atomic_load_explicit(&pfw_live->api, memory_order_relaxed) &
			 PFW_LIVE_STRAIGHT))
		pfw_probe_straight();
}

/*
 * Whether a word of pfw_live, which has just read 0, means "off".  Else this is a forked child:
 * `born` is stored behind the words, so where it is there the word is looked at again, as another
 * thread may have set both between two looks.
 */
static inline bool pfw_live_off(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(&pfw_live->born, memory_order_acquire) &&
	       !atomic_load_explicit(word, memory_order_relaxed);
}

/* Whether events are recorded, for who has no thread that could. */
static inline bool pfw_live_records(void)
{
	uint64_t word = atomic_load_explicit(&pfw_live->api, memory_order_relaxed);

	return word && word != PFW_LIVE_STEPS;
}

/* Out of line: first use in a thread, unknown descriptor, forked child, off. */
bool pfw_probe_fd_slow(struct pfw_probe *probe, int fd);

/*
 * Whether a call on fd is surely not traced: off, or a descriptor known to be left out.  All that
 * such a call costs; pfw_probe_fd() decides the rest.  Thread: app.  Signal: safe.
 */
static inline bool pfw_probe_fd_passes(int fd)
{
	const struct pfw_live *live = pfw_live;

	if (PFW_UNLIKELY(!atomic_load_explicit(&live->io, memory_order_relaxed)))
		return pfw_live_off(&live->io);
	return (uint32_t)(pfw_fd_load(fd) >> 32) == (pfw_fd_generation | PFW_FD_UNTRACED);
}

/* Begin a call on fd.  False: not traced, call the real one and return.  Thread: app.  Signal: safe. */
static inline bool pfw_probe_fd(struct pfw_probe *probe, uint16_t call, int fd)
{
	uint64_t word = atomic_load_explicit(&pfw_live->io, memory_order_relaxed);
	uint64_t entry = pfw_fd_load(fd);
	uint32_t state = (uint32_t)(entry >> 32) ^ pfw_fd_generation;

	if (PFW_LIKELY(word != 0)) {
		if (state == PFW_FD_UNTRACED)
			return false;
	} else if (pfw_live_off(&pfw_live->io)) {
		return false;
	}
	probe->call = call;
	if (PFW_UNLIKELY(state != PFW_FD_TRACED || word != pfw_thread.live || !word))
		return pfw_probe_fd_slow(probe, fd);
	probe->name = pfw_fd_name(entry);
	probe->t0 = pfw_clock_ticks();
	return true;
}

/*
 * Begin a call on a path.  The path is looked at only after the call, when the kernel has said that
 * it can be read: then the filter decides, too.  Thread: app.  Signal: safe.
 */
bool pfw_probe_path(struct pfw_path_probe *probe, uint16_t call, int dirfd, const char *path);

/* Begin a call that has no object (fork, _exit): no filter is asked. */
bool pfw_probe_bare(struct pfw_probe *probe, uint16_t call);

/* Whether table-keeping calls (close, dup) have anything to keep: probes on, and not in a vfork
 * child.  Cheap.  Thread: app.  Signal: safe. */
bool pfw_probe_on(void);

/*
 * End a call on a descriptor: value[0] is ret, value[1] the fd, then the row's fields in order.
 * `failed` makes errno part of the record.  Keeps errno.  Thread: app.  Signal: safe.
 */
void pfw_probe_end(const struct pfw_probe *probe, bool failed, const uint64_t *value,
		   unsigned value_count);

/*
 * End any call: as above, with a name for the record (NULL = probe->name) and the texts of the
 * row's STRING fields in order (what value[] has in their places does not matter).
 */
struct pfw_ending {
	const uint64_t *value;
	unsigned value_count;
	const struct pfw_tail *name; /* inline name, if the filter lets it pass; or NULL */
	const struct pfw_tail *text; /* bytes of the STRING fields */
	unsigned text_count;
	int error;     /* errno to record, 0 = the call worked */
	uint64_t t1;   /* ticks when the call returned; 0 = now */
	uint8_t flags; /* enum pfw_record_flags to add */
	bool any_name; /* the filter is not asked */
};
void pfw_probe_end_full(const struct pfw_probe *probe, const struct pfw_ending *ending);

/* End a call on a path: value[0] is ret, then the row's fields.  The name is made again from the
 * caller's path, which is still there. */
void pfw_probe_path_end(struct pfw_path_probe *probe, bool failed, int dirfd, const char *path,
			const uint64_t *value, unsigned value_count);

/* The absolute name of (dirfd, path) as text pieces; scratch as in the probe, whose `error` is set.
 * Empty where the path cannot be read.  Thread: app.  Signal: safe. */
void pfw_probe_path_text(struct pfw_path_probe *probe, int dirfd, const char *path,
			 struct pfw_tail *out);

/*
 * After a successful open: fd is (dirfd, path) from now on.  Makes the name a string of the spool,
 * held by the table.  Where the filter leaves the path out (or `traced` is false) fd is marked
 * untraced and the probe's end will record nothing.  Return the string, 0 = none.
 */
uint32_t pfw_probe_opened(struct pfw_path_probe *probe, int fd, int dirfd, const char *path,
			  bool traced);

/* Whether the filter takes the name that pfw_probe_path_text() made; it takes NULL, a name that
 * cannot be read.  Counts what is left out.  Thread: app.  Signal: safe. */
bool pfw_probe_text_traced(const struct pfw_tail *name);

/* Copy what a program's pointer points to; false where it cannot be read.  Thread: any.
 * Signal: safe. */
bool pfw_probe_peek(void *to, const void *from, size_t bytes);

#endif
