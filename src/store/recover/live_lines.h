/* store/recover/live_lines.h - lines that traced processes have not written to their files yet. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "store/pass/pass.h"
#include "store/traces/traces.h"

struct pfw_unwritten;

/* Fill in `traces`, `say` and `user`; the other members are zero. */
struct pfw_live_lines {
	struct pfw_traces *traces;
	pfw_traces_say *say; /* told why lines cannot be read */
	void *user;
	struct pfw_unwritten **live; /* of each file; NULL: it has no lines in rings */
	bool any;		     /* some file has lines in rings */
	bool missing;		     /* some lines cannot be read; say() was called */
};

/* Find the lines in rings of each file.  A part of the file that is being written is removed from
 * its blocks, as its lines are in the rings, too.  0 or -errno.  Thread: main, as all here. */
int pfw_live_lines_open(struct pfw_live_lines *lines);

/* Give all lines to take(), several whole ones at a time, once.  0, or what take() returned. */
int pfw_live_lines_read(struct pfw_live_lines *lines, const _Atomic bool *stop,
			int (*take)(void *user, size_t file, const char *text, size_t bytes),
			void *user);

/* Give them to a pass that has ended, as more blocks.  0, or what the pass returned. */
int pfw_live_lines_pass(struct pfw_live_lines *lines, const struct pfw_pass *pass);

/* The same for struct pfw_extent_options; `lines` is a struct pfw_live_lines.  It reads the rings
 * anew, so the lines can still be read afterwards. */
int pfw_live_lines_more(void *lines,
			int (*take)(void *search, size_t file, const char *text, size_t bytes),
			void *search);

void pfw_live_lines_close(struct pfw_live_lines *lines);
