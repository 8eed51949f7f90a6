/* table_nest.h - what the places of spans make of a table's rows: self times, whose GPU work it is. */
#ifndef TABLE_NEST_H
#define TABLE_NEST_H

#include "store/nesting.h"
#include "table.h"

/* Spans and GPU work that are kept in memory until all are there; more goes to temporary files. */
#define TABLE_MEMORY (256u << 20)

/* The group of a span: its worker's number, and below these bits that of its row there. */
#define TABLE_ROW_BITS 26u
#define TABLE_JOBS_MAX (1u << (32u - TABLE_ROW_BITS))

struct table_nest {
	struct table *table; /* all workers' rows are merged into its */
	const struct table_options *options;
	struct pfw_nesting *nesting;	    /* all spans are added */
	const struct pfw_averages **worker; /* the rows of each */
	unsigned jobs;
};

/* Add the spans to the rows.  Return 0, or as pfw_nesting_run().  Thread: main. */
int table_nest(const struct table_nest *nest);

#endif
