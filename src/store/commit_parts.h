/* commit_parts.h - what the parts of a commit share: commit.c (new files, and what predecessors left),
 * commit_journal.c (the journal's text), commit_carry.c (names given, originals removed).
 */
#ifndef PFW_COMMIT_PARTS_H
#define PFW_COMMIT_PARTS_H

#include "commit.h"

#define PFW_COMMIT_PREFIX ".pfw-compact-"

/* ---- commit.c ---- */

/* Append one, to be filled in, with copies of these; NULL: no memory. */
struct pfw_commit_new *pfw_commit_add_new(struct pfw_commit *commit, const char *temporary,
					  const char *name);
void pfw_commit_free_lists(struct pfw_commit *commit);

/* ---- commit_carry.c ---- */

/* Say why in commit->why; return `error`.  The other one: errno, of a path. */
__attribute__((format(printf, 3, 4))) int pfw_commit_fail(struct pfw_commit *commit, int error,
							  const char *format, ...);
int pfw_commit_fail_path(struct pfw_commit *commit, const char *what, const char *path);

/* Have a directory's names on the disk. */
int pfw_commit_sync(const char *path);

/* Open and lock a file of that path, made if need be (O_CREAT in flags); it is still that path's once
 * it is locked.  Its descriptor, -EBUSY where another has it, or -errno. */
int pfw_commit_open_locked(const char *path, int flags, bool wait);

/* Give the new files their names; one that has it already was named before we were killed. */
int pfw_commit_give_names(struct pfw_commit *commit);

/* Remove the originals that are as they were. */
int pfw_commit_remove_old(struct pfw_commit *commit, unsigned *kept);

/* ---- commit_journal.c ---- */

struct pfw_journal {
	char *text;
	size_t bytes;
	const char *at;
};

/* The whole text of a commit's journal, to be freed, its hash last; NULL: no memory. */
char *pfw_journal_make(const struct pfw_commit *commit, size_t *bytes);

/* Read one; -EPERM: others than we can have written it. */
int pfw_journal_read(int fd, struct pfw_journal *journal);

/* Whether it is whole: it ends in the hash of what is before. */
bool pfw_journal_is_whole(const struct pfw_journal *journal);

/* Put what it says into *commit. */
int pfw_journal_parse(struct pfw_commit *commit, struct pfw_journal *journal);

#endif
