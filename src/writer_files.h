/* writer_files.h - the spool and the trace, open in the table of whoever does the writer's work. */
#ifndef PFW_WRITER_FILES_H
#define PFW_WRITER_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "spool.h"

struct pfw_writer;

/* Files of the calling thread's descriptor table; -1 = not open.  In a table that the program has
 * too they have a slot of hidden.h, which knows their number when the program has moved them. */
struct pfw_writer_files {
	int spool, trace;
	int spool_slot, trace_slot;
	bool own;   /* the table is the thread's own */
	bool high;  /* it is not, and they stay: at numbers that the program does not count with */
	bool waits; /* for such a number: who works is not a thread of the program's */
	bool grows; /* the spool may be opened, to append to it */
};
#define PFW_NO_FILES \
	((struct pfw_writer_files){ .spool = -1, .trace = -1, .spool_slot = -1, .trace_slot = -1 })

/*
 * Take a descriptor table of our own, empty: the program then never sees, inherits or closes our
 * files, and its own calls stay fast, since a table of one thread needs no reference counts.
 * False: the kernel refuses.  Thread: drain.
 */
bool pfw_writer_take_table(void);

/* The thread is about to end: another may get its number.  Thread: drain. */
void pfw_writer_leave_table(void);

/* Whether it would be refused, without taking one.  Thread: any. */
bool pfw_writer_table_refused(void);

/* Append to the spool; as pfw_spool_append().  And only open it, where it stays open: 0 or -errno. */
void *pfw_writer_append(struct pfw_writer *writer, enum pfw_chunk_kind kind, uint32_t index,
			uint64_t bytes);
int pfw_writer_open_spool(struct pfw_writer *writer);

/* The descriptor to write the trace to; the file is made where it is not there.  Or -errno. */
int pfw_writer_trace(struct pfw_writer *writer);

/* The program may have given our numbers other files since the last work. */
void pfw_writer_check_files(struct pfw_writer *writer);

void pfw_writer_close_files(struct pfw_writer *writer);

#endif
