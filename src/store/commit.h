/* commit.h - finished files take the place of those they were made from, all or nothing.
 *
 * New files are written under temporary names, `.pfw-compact-NAME.part` beside NAME, each locked by who
 * writes it.  Once all are on the disk and checked, a journal is written that lists them and what
 * they replace; from then on the change is carried through, by us or, if we are killed, by the next
 * one who comes along: names are given, then originals removed.  Without a whole journal, temporary
 * files that nobody has locked are leavings, and removed.
 */
#ifndef PFW_COMMIT_H
#define PFW_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pfw_commit_new {
	char *temporary, *name; /* paths; both in the same directory */
	int fd;			/* locked; -1: found in a journal */
	uint64_t device, inode;
	bool replace; /* what has the name already */
};

struct pfw_commit_old {
	char *path;
	uint64_t device, inode, bytes;
	int64_t changed_ns;
};

struct pfw_commit {
	char *directory; /* of the new files */
	struct pfw_commit_new *made;
	size_t made_count;
	struct pfw_commit_old *old;
	size_t old_count;
	char why[512]; /* of the last failure: one line, with the path */
};

/*
 * Begin one in a directory; carries through, or removes, what killed predecessors left there.
 * *carried gets the number of changes that were carried through.  0 or -errno, with commit->why.
 * Thread: one at a time, as all here.
 */
int pfw_commit_begin(struct pfw_commit *commit, const char *directory, unsigned *carried);

/* Make the temporary file of `name` (without directory): returns its descriptor, which stays the
 * commit's, or -errno: -EEXIST where the name is taken and `replace` is not set, -EBUSY where another
 * is at work on it. */
int pfw_commit_add(struct pfw_commit *commit, const char *name, bool replace);

/* Take a file that was made beside made[number], its name that one's and `suffix`: it goes with it.
 * 0 or -errno. */
int pfw_commit_add_beside(struct pfw_commit *commit, size_t number, const char *suffix);

/* The file made last is not wanted. */
void pfw_commit_drop(struct pfw_commit *commit);

/* The file `path`, as stat() found it, is to be removed. */
int pfw_commit_remove(struct pfw_commit *commit, const char *path, uint64_t device, uint64_t inode,
		      uint64_t bytes, int64_t changed_ns);

/* Carry it through.  *kept gets the number of originals that were left, since they have changed.
 * On failure before the journal was written nothing has changed; behind that the next begin goes on. */
int pfw_commit_run(struct pfw_commit *commit, unsigned *kept);

/* Free it; what was not committed is removed. */
void pfw_commit_end(struct pfw_commit *commit);

#endif
