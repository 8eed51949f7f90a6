/* tools/report/pack.h - rows of a page in a third of the bytes: their keys once. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "store/json/reader.h"

/* With `out` set: no row yet.  Thread: one at a time. */
struct report_pack {
	FILE *out;
	bool rows;		/* some are written */
	struct pfw_reader last; /* the row that said the keys */
};

/* Write a row, an object; its text must stay until the last one. */
void report_pack_row(struct report_pack *pack, const char *row, size_t bytes);
