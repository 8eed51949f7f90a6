/* calls_table.h - calls.def as data: names and args of each row, for templates and `pfw calls`. */
#ifndef PFW_CALLS_TABLE_H
#define PFW_CALLS_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define PFW_CALL_FIELDS_MAX 8
#define PFW_CALLS_MAX 1024 /* rows of calls.def, at most */

struct pfw_call_field {
	const char *key;
	uint8_t type; /* enum pfw_type */
};

/* One wrapped call. */
struct pfw_call_info {
	const char *name;      /* the libc symbol */
	const char *canonical; /* what the trace calls it */
	const char *category;  /* POSIX | STDIO */
	uint8_t has_fd;	       /* args has fd, the first field */
	uint8_t keeps;	       /* its wrapper is needed also where the call is not recorded */
	uint8_t field_count;   /* without fd */
	struct pfw_call_field field[PFW_CALL_FIELDS_MAX];
};

/* The rows in enum pfw_call order; *count gets their number.  Thread: any.  Signal: safe. */
const struct pfw_call_info *pfw_calls_info(size_t *count);

#endif
