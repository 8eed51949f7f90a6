/* store/table/code.h - sums of rows as bytes of an index: docs/index_format.rst. */
#pragma once

#include "store/index/db.h"
#include "store/kit/varint.h"
#include "store/nesting/averages.h"

/* Append them; the first `fields` texts of a row's key. */
void pfw_table_put_key(struct pfw_blob *blob, const char *key, unsigned fields);
void pfw_table_put_tally(struct pfw_blob *blob, const struct pfw_tally *sums);
void pfw_table_put_sketch(struct pfw_blob *blob, const struct pfw_sketch *sketch);

/* The sums as numbers. */
#define PFW_TABLE_VALUES (7u + PFW_TALLY_SUMS)
void pfw_table_values(const struct pfw_tally *sums, uint64_t value[PFW_TABLE_VALUES]);
/* False: they can be of no sums. */
bool pfw_table_tally_of(struct pfw_tally *sums, const uint64_t value[PFW_TABLE_VALUES]);

/*
 * Columns of numbers of one width each, which are read six times as fast as varints.  Append `rows` rows of
 * `columns` numbers, row by row in `value`.
 */
#define PFW_TABLE_COLUMNS (1u + PFW_TABLE_VALUES)
void pfw_table_put_columns(struct pfw_blob *blob, const uint64_t *value, unsigned columns,
			   size_t rows);

struct pfw_table_columns {
	uint64_t rows, least[PFW_TABLE_COLUMNS];
	unsigned varying; /* the columns whose numbers are not all the least one */
	struct pfw_table_column {
		const uint8_t *at;
		uint64_t mask;
		unsigned column, width;
	} of[PFW_TABLE_COLUMNS];
};

/* Store the numbers of a row that vary; the others are `least`. */
static inline void pfw_table_row_of(const struct pfw_table_columns *columns, uint64_t row,
				    uint64_t *value)
{
	for (unsigned i = 0; i < columns->varying; i++) {
		const struct pfw_table_column *of = &columns->of[i];
		uint64_t more;

		memcpy(&more, of->at + row * of->width, sizeof(more));
		value[of->column] = columns->least[of->column] + (le64toh(more) & of->mask);
	}
}

/* Read the next; reader->bad is set if it cannot be read. */
void pfw_table_get_columns(struct pfw_varints *reader, unsigned columns,
			   struct pfw_table_columns *out);
struct pfw_slice pfw_table_get_text(struct pfw_varints *reader);
void pfw_table_get_tally(struct pfw_varints *reader, struct pfw_tally *sums);
