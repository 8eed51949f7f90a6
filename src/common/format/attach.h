/* common/format/attach.h - what `pfw attach` and the recorder in the attached process say to each
 * other.
 *
 * One mapping of the attached process, which the command reads and writes through /proc/PID/mem.
 * tools/attach/stub.c, which is no C, knows the offsets of the first members.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PFW_ATTACH_VERSION 5u
#define PFW_ATTACH_BYTES (256u * 1024u)
#define PFW_ATTACH_ENTRY "pfw_attached"

/* In this order.  Each side leaves a state only by setting the next one. */
enum pfw_attach_state {
	PFW_ATTACH_NEW,
	PFW_ATTACH_WAITING,    /* our thread runs; the command may fill in what it wants */
	PFW_ATTACH_FILLED,     /* by the command */
	PFW_ATTACH_NOT_LOADED, /* `dlerror` is the address of the reason */
	PFW_ATTACH_NO_ENTRY,   /* the library has no pfw_attached() */
	PFW_ATTACH_DONE,       /* `error`, `said` and `trace` are set */
	PFW_ATTACH_CLOSE,      /* by the command: no thread is in the recorder, unload it */
	PFW_ATTACH_UNLOADED,
	PFW_ATTACH_KEPT, /* the dynamic linker needs it: a library that was loaded later leads to it */
	PFW_ATTACH_SEEN, /* by the command: the mapping may go */
};

enum pfw_attach_wish {
	PFW_ATTACH_BEGIN,
	PFW_ATTACH_END,
	PFW_ATTACH_LIST /* `left`, before CLOSE */
};

/* What stub.c sets. */
struct pfw_attach_head {
	uint32_t state;
	int32_t tid;	  /* of our thread, once WAITING */
	uint64_t thread;  /* its pthread_t */
	uint64_t dlerror; /* address of a text */
	uint64_t values;  /* address of what stub.c was given */
	uint64_t stack;	  /* of our thread; the reaper unmaps it */
	int32_t reaper;	  /* tid of the thread that unmaps all of this once ours has ended */
	int32_t unused;
};

struct pfw_attach_memory {
	uint64_t at, bytes;
};

/* Room for jumps (recorder/attach/thunks.h): jump i, of 8 bytes, leads to where word i says. */
struct pfw_attach_thunks {
	uint64_t code, words, count;
};

struct pfw_attach_block {
	struct pfw_attach_head head;
	char entry[16];	    /* PFW_ATTACH_ENTRY */
	char library[4096]; /* path of the recorder, as the process sees it */
	/* Mappings that the unloaded recorder leaves, up to the first 0: stub.c unmaps them. */
	struct pfw_attach_memory left[1024];
	/* Only C code reads the members below. */
	uint32_t version;
	uint32_t wish;
	/* 0 or -errno; ECANCELED: nothing can be recorded; ESTALE: that was so before, begin once more */
	int32_t error;
	uint32_t leaves;		     /* the recorder can be unloaded, unless: */
	char stays[256];		     /* why not; "" = if no thread is in it */
	uint64_t code, code_end;	     /* of the recorder */
	struct pfw_attach_thunks thunks[16]; /* up to the first that has none */
	uint32_t jumps;			     /* that stay in the program */
	uint32_t jumps_mapped;		     /* some in a mapping of their own: 1 */
	uint64_t starter;		     /* address for pfw_own_thread_lend(); 0 = none */
	char said[4096];		     /* the recorder's messages, a line each */
	char trace[4096];		     /* path of the trace as the process sees it */
	/* NAME=VALUE, each with a NUL, and an empty one: our variables, not the process's. */
	char variables[128 * 1024];
};
_Static_assert(offsetof(struct pfw_attach_head, tid) == 4, "stub.c");
_Static_assert(offsetof(struct pfw_attach_head, thread) == 8, "stub.c");
_Static_assert(offsetof(struct pfw_attach_head, dlerror) == 16, "stub.c");
_Static_assert(offsetof(struct pfw_attach_head, values) == 24, "stub.c");
_Static_assert(offsetof(struct pfw_attach_head, stack) == 32, "stub.c");
_Static_assert(offsetof(struct pfw_attach_head, reaper) == 40, "stub.c");
_Static_assert(offsetof(struct pfw_attach_block, entry) == 48, "stub.c");
_Static_assert(offsetof(struct pfw_attach_block, library) == 64, "stub.c");
_Static_assert(offsetof(struct pfw_attach_block, left) == 4160, "stub.c");
_Static_assert(sizeof(struct pfw_attach_block) <= PFW_ATTACH_BYTES, "fits");
