/* validate.h - what the parts of `pfw validate` share: what is promised of a line and of a file
 * (validate_line.c), what is said (validate_print.c), and the command itself (validate.c).
 */
#ifndef PFW_VALIDATE_H
#define PFW_VALIDATE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/live.h"
#include "store/recover.h"
#include "store/scan.h"
#include "validate_merged.h"

struct cli_command;

#define VALIDATE_SHOWN 10 /* problems a file; one broken writer makes as many as lines */
#define VALIDATE_REASONS 16
#define VALIDATE_NO_PLACE UINT64_MAX

/* Totals of one `lost` reason: the last line of a reason counts. */
struct validate_lost {
	char name[32];
	uint64_t count;
};

/* One file, or all of them. */
struct validate_tally {
	uint64_t files, lines, events, lost, waited, waited_us, problems;
	uint64_t uring_operations, aio_contexts; /* past libc, and not in the trace */
	uint64_t running;			 /* files whose processes go on */
};

struct validate {
	const struct cli_command *command;
	int format;
	bool quiet;
	bool colours;
	int status;
	struct validate_tally all;
	unsigned manifests;
	/* Listed behind the search for the files, so the spool of each that is still written is there. */
	struct pfw_spool_listings spools;
	/* The file in hand. */
	struct pfw_scan scan;
	const char *name; /* as it is printed */
	struct validate_tally file;
	struct validate_lost reason[VALIDATE_REASONS];
	size_t reason_count;
	uint64_t first_id, last_id;
	bool any_id;
	struct pfw_live *live; /* what its process has not written yet; NULL = nothing */
	char live_why[PFW_LIVE_WHY_BYTES]; /* why that cannot be read; "" = there is none */
	bool is_merged;			   /* compacted: of many processes, in order of ts */
	struct merged merged;
	bool ended; /* the last line was an `end` */
	uint64_t end_events, end_lost;
};

/* ---- validate_print.c; thread: main, as all here ---- */

/* Count a problem of the line in hand, of the whole file, and say it where few were said before. */
__attribute__((format(printf, 2, 3))) void validate_say_line(struct validate *check,
							     const char *format, ...);
__attribute__((format(printf, 2, 3))) void validate_say_file(struct validate *check,
							     const char *format, ...);

/* Say one; line 0, VALIDATE_NO_PLACE: unknown. */
void validate_print_problem(const struct validate *check, uint64_t line, uint64_t at,
			    const char *text);

/* One line about a file; path NULL: about all of them. */
void validate_print_summary(const struct validate *check, const char *name, const char *path,
			    const struct validate_tally *tally);

/* ---- validate_line.c ---- */

/* Hold the line in hand to what is promised of it. */
void validate_line(struct validate *check);

/* Say what is known once the last line is read. */
void validate_end(struct validate *check);

#endif
