/* store/commit/internal.h - shared by commit.c, journal.c and carry.c. */
#pragma once

#include "store/commit/commit.h"

#define PFW_COMMIT_PREFIX ".pfw-compact-"

/* ---- commit.c ---- */

/* Append an item with copies of these names; NULL: no memory. */
struct pfw_commit_new *pfw_commit_add_new(struct pfw_commit *commit, const char *temporary,
					  const char *name);

/* ---- carry.c ---- */

/* Put a message into commit->why and return `error`; the second uses errno and a path. */
__attribute__((format(printf, 3, 4))) int pfw_commit_fail(struct pfw_commit *commit, int error,
							  const char *format, ...);
int pfw_commit_fail_path(struct pfw_commit *commit, const char *what, const char *path);

/* Sync a directory. */
int pfw_commit_sync(const char *path);

/* Open and lock this user's file at a path, `create`: or a new one; the path still names it once it
 * is locked.  Its descriptor, -EBUSY if another process has it locked, or -errno. */
int pfw_commit_open_locked(const char *path, bool create, bool wait);

/* Rename the new files.  A missing temporary file was renamed before we were killed. */
int pfw_commit_give_names(struct pfw_commit *commit);

/* Remove the originals that have not changed. */
int pfw_commit_remove_old(struct pfw_commit *commit, unsigned *kept);

/* ---- journal.c ---- */

struct pfw_journal {
	char *text;
	size_t bytes;
	const char *at;
};

/* The text of a commit's journal, to be freed, with its hash at the end; NULL: no memory. */
char *pfw_journal_make(const struct pfw_commit *commit, size_t *bytes);

/* Read a journal; -EPERM: another user may have written it. */
int pfw_journal_read(int fd, struct pfw_journal *journal);

/* Whether a journal is complete: it ends in the hash of the rest. */
bool pfw_journal_is_whole(const struct pfw_journal *journal);

/* Put a journal's content into *commit. */
int pfw_journal_parse(struct pfw_commit *commit, struct pfw_journal *journal);
