/* store/kinds.c - the analyses that store rows of their own in an index.
 *
 * Room store: the root of the wing holds only this table: it registers kinds of rooms above
 * store/index with the index, which must not include them.
 */
#include "store/compare/in_index.h"
#include "store/index/parts.h"
#include "store/memory/in_index.h"
#include "store/overlap/in_index.h"
#include "store/patterns/in_index.h"
#include "store/table/in_index.h"

const struct pfw_index_kind *const pfw_index_kind_table[] = {
	&pfw_overlap_kind, &pfw_patterns_kind, &pfw_table_kind,
	&pfw_compare_kind, &pfw_calls_kind,    &pfw_memory_kind,
};
#define KINDS (sizeof(pfw_index_kind_table) / sizeof(pfw_index_kind_table[0]))
_Static_assert(KINDS <= PFW_INDEX_KINDS_MAX, "room in struct pfw_gather");

const size_t pfw_index_kind_count = KINDS;
