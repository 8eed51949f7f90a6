/* common/calls/table.h - calls.def as data: names, role and args of each row.
 *
 * Room common/calls: the wrapped calls as data (calls.def), and the calls that are not wrapped
 * (unwrapped.def).  It uses common/format.  Start with the head of calls.def.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PFW_CALL_FIELDS_MAX 8
#define PFW_CALLS_MAX 1024 /* most rows of calls.def */

/* What a call does with a file, as the tools count it. */
enum pfw_call_role {
	PFW_ROLE_NONE, /* no call: cat is none of POSIX, STDIO, NET and SYNC */
	PFW_ROLE_OPEN,
	PFW_ROLE_READ,
	PFW_ROLE_WRITE,
	PFW_ROLE_COPY,	/* reads `fname`, writes `target` */
	PFW_ROLE_OTHER, /* moves no data: metadata, seeks, processes, ... */
};

/* Which args say how many bytes a call moved. */
enum pfw_call_moves {
	PFW_MOVES_NOTHING,
	PFW_MOVES_RET,
	PFW_MOVES_ITEMS, /* ret items of `size` bytes */
	PFW_MOVES_COUNT, /* `count`, unless ret is negative */
	PFW_MOVES_BYTES, /* `bytes`: copies, sets and use of memory; no call of calls.def */
};

/* As struct pfw_key of the spool. */
struct pfw_call_field {
	char key[23];
	uint8_t type; /* enum pfw_type */
};

/* One wrapped call.  Texts, not pointers to them: pointers would be relocated in each traced
 * process, and each page of them copied. */
struct pfw_call_info {
	char name[32];	     /* the libc symbol */
	char canonical[28];  /* what the trace calls it */
	char category[8];    /* POSIX | STDIO | NET | SYNC */
	uint8_t has_fd;	     /* args has fd, the first field */
	uint8_t keeps;	     /* the wrapper is needed even if the call is not recorded */
	uint8_t role;	     /* enum pfw_call_role */
	uint8_t moves;	     /* enum pfw_call_moves */
	uint8_t field_count; /* without fd */
	struct pfw_call_field field[PFW_CALL_FIELDS_MAX];
};

/* All rows in the order of enum pfw_call, and their number.  Thread: any.  Signal: safe. */
const struct pfw_call_info *pfw_calls_info(size_t *count);
