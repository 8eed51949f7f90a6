/* tools/anonymise/anonymise.h - the parts of `pfw anonymise`.
 *
 * Room tools/anonymise: copies of traces in which names are replaced.  It may use tools/copies,
 * tools/ui, tools/share and the store.  Start with line.c, which says what is replaced; names.c
 * makes the pseudonyms.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/line/entry.h"
#include "store/read/stream.h"

#define ANONYMISE_KEY_BYTES 16u

/* What is replaced, and by which pseudonyms. */
struct anonymise_rules {
	uint64_t key[2];
	bool names;	 /* also names and categories of the program's own spans */
	bool roots;	 /* keep well-known directories at the begin of a path */
	bool extensions; /* keep what follows the last dot of a name */
};

/* ---- names.c ---- */

/* SipHash-2-4: without the key, the hash of a guess cannot be computed.  Thread: any, as all here. */
uint64_t anonymise_hash(const uint64_t key[2], const char *text, size_t bytes);

/* Append the pseudonym of a text, or of a path with its directories.  0 or -ENOMEM. */
int anonymise_text(const struct anonymise_rules *rules, struct pfw_buffer *out, const char *text,
		   size_t bytes);
int anonymise_path(const struct anonymise_rules *rules, struct pfw_buffer *out, const char *path,
		   size_t bytes);

/* ---- line.c ---- */

/* Append a line with names replaced, without '\n'.  `scratch` is memory to reuse.  0 or -ENOMEM. */
int anonymise_line(const struct anonymise_rules *rules, struct pfw_buffer *out,
		   struct pfw_buffer *scratch, const struct pfw_entry *entry, const char *line,
		   size_t bytes);
