/* store/table/code.h - sums of rows as bytes of an index: docs/index_format.rst. */
#pragma once

#include "store/index/db.h"
#include "store/kit/varint.h"
#include "store/nesting/averages.h"

/* Append them; the first `fields` texts of a row's key. */
void pfw_table_put_key(struct pfw_blob *blob, const char *key, unsigned fields);
void pfw_table_put_tally(struct pfw_blob *blob, const struct pfw_tally *sums);
void pfw_table_put_sketch(struct pfw_blob *blob, const struct pfw_sketch *sketch);

/* Read the next; reader->bad is set if it cannot be read. */
struct pfw_slice pfw_table_get_text(struct pfw_varints *reader);
void pfw_table_get_tally(struct pfw_varints *reader, struct pfw_tally *sums);
