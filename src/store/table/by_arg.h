/* store/table/by_arg.h - sums by args of a trace that is indexed: the time of each step by args.kind, and
 * GPU work by how it was launched and by which operator.
 */
#pragma once

#include "store/index/db.h"
#include "store/kit/pair_ids.h"
#include "store/kit/text_ids.h"
#include "store/nesting/averages.h"
#include "store/sys/spill.h"
#include "store/table/line.h"

/* If one of the two has more rows, the index has no rows of that kind. */
#define PFW_TABLE_ARG_ROWS 262144u

/* ---- GPU work of a block ---- */

struct pfw_table_work {
	int64_t start_ns, dur_ns;
	uint64_t launcher, otherwise; /* 0: not known */
	uint64_t process;	      /* of its entry; of a file, its number */
	uint32_t row, args;
	uint32_t said; /* as span->note */
	uint8_t device;
	bool hidden; /* it has no row: only its launcher matters */
};

/* All zero: none.  Thread: one at a time, as all here. */
struct pfw_table_works {
	struct pfw_table_work *work;
	size_t works;
	/* Private to by_arg.c. */
	struct pfw_text_ids args; /* objects with those args of a line by which rows are made */
	struct pfw_table_args {
		uint32_t file;	  /* that knows it as `of_file`; 0: none */
		uint32_t of_file; /* its last number in a file */
		uint32_t after;	  /* the args of the next work when it came before, plus 1 */
	} * known;
	size_t room, known_room;
	uint32_t last; /* the args of the work before */
};

/* The number of those args of a line.  -ENOMEM. */
int64_t pfw_table_works_args(struct pfw_table_works *works, const struct pfw_entry *entry);

/* Add a line of a device, its row and its args.  0 or -ENOMEM. */
int pfw_table_works_add(struct pfw_table_works *works, const struct pfw_entry *entry,
			const struct pfw_table_line *line, uint32_t row, uint32_t args);
void pfw_table_works_clear(struct pfw_table_works *works);
void pfw_table_works_release(struct pfw_table_works *works);

/* ---- of a file ---- */

struct pfw_table_by_arg;

/* NULL: no memory. */
struct pfw_table_by_arg *pfw_table_by_arg_create(void);
void pfw_table_by_arg_free(struct pfw_table_by_arg *by_arg);

/* Keep the GPU work of the next block, whose rows were merged; `nesting` numbers the processes, and gets the
 * work with its launchers.  0, or as pfw_spill_add(). */
int pfw_table_by_arg_take(struct pfw_table_by_arg *by_arg, struct pfw_table_works *works,
			  const struct pfw_averages *rows, struct pfw_nesting *nesting);

/* All that was kept: *count of them, with the rows of the file. */
const struct pfw_table_work *pfw_table_by_arg_works(const struct pfw_table_by_arg *by_arg,
						    size_t *count);

/* What events add to their kind in a step. */
struct pfw_table_of_kind {
	uint64_t count;
	int64_t self_ns, self_device_ns, first_ns, first_dur_ns; /* as in struct pfw_tally */
};

/* The sums of the kind of a row in a step, whose events of this row's device are numbered `in`, until the next
 * call.  NULL: there are too many, or no memory: then none will be kept. */
struct pfw_table_of_kind *pfw_table_by_arg_kind(struct pfw_table_by_arg *by_arg,
						const struct pfw_average *rows, uint32_t row,
						uint32_t in);

/* Add events of one row. */
static inline void pfw_table_kind_add(struct pfw_table_of_kind *sums,
				      const struct pfw_table_of_kind *events)
{
	if (!sums->count || events->first_ns < sums->first_ns ||
	    (events->first_ns == sums->first_ns && events->first_dur_ns > sums->first_dur_ns)) {
		sums->first_ns = events->first_ns;
		sums->first_dur_ns = events->first_dur_ns;
	}
	sums->count += events->count;
	pfw_saturate_sum(&sums->self_ns, events->self_ns);
	pfw_saturate_sum(&sums->self_device_ns, events->self_device_ns);
}

/* After all spans are nested: append the GPU work by row, args and name of the operator; number[] as for
 * pfw_table_by_thread_put().  0 or -ENOMEM. */
int pfw_table_by_arg_put(struct pfw_table_by_arg *by_arg, const struct pfw_nesting *nesting,
			 const struct pfw_averages *rows, const uint32_t *number,
			 struct pfw_blob *data);

/* Append what all kinds are; false: none are kept.  Then those of each step and device. */
bool pfw_table_by_arg_put_kinds(const struct pfw_table_by_arg *by_arg, struct pfw_blob *data);

struct pfw_table_kinds_of {
	uint32_t in;
	uint64_t step, device; /* step: plus 1; 0: none */
	uint64_t last_step;    /* of those before, as the next */
	int64_t last_ns;
};
void pfw_table_by_arg_put_kinds_of(const struct pfw_table_by_arg *by_arg,
				   struct pfw_table_kinds_of *of, struct pfw_blob *data);
