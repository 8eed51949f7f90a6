/* tools/anonymise/anonymise.h - the parts of `pfw anonymise`.
 *
 * Room tools/anonymise: copies of traces in which names are replaced.  It may use tools/ui,
 * tools/share and the store.  Start with line.c, which says what is replaced; names.c makes the
 * pseudonyms, block.c the text or the gzip members of a file, anonymise.c the files.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/gzip/member.h"
#include "store/pass/pass.h"
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

/* SipHash-2-4: without the key nobody can compute it for a guessed name.  Thread: any, as all here. */
uint64_t anonymise_hash(const uint64_t key[2], const char *text, size_t bytes);

/* A growing text. 0 or -ENOMEM. */
int anonymise_append(struct pfw_buffer *text, const char *more, size_t bytes);

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

/* ---- block.c ---- */

enum anonymise_form {
	ANONYMISE_PLAIN,
	ANONYMISE_GZIP,	  /* members as the recorder makes them */
	ANONYMISE_SORTED, /* marked members, as `pfw compact` makes them */
};

/* Compressors and memory of one thread; all zero at first. */
struct anonymise_worker {
	struct pfw_gzip *gzip;
	struct pfw_member *member;
	struct pfw_buffer text, scratch;
};

/*
 * Append what becomes of a block of a file.  `mark` is that of a SORTED block.  0, -ENOMEM, -ENOENT
 * without a library to compress with, or another -errno.
 */
int anonymise_block(const struct anonymise_rules *rules, struct anonymise_worker *worker,
		    enum anonymise_form form, const struct pfw_sorted_mark *mark,
		    struct pfw_pass_block *block, struct pfw_buffer *out);

void anonymise_worker_free(struct anonymise_worker *worker);
