/* store/commit/commit.h - replaces originals by finished files, all or nothing.
 *
 * Room store/commit: atomic replacement of a set of files by a journal.  It may use
 * store/{kit,sys,line}.  Start here, then journal.c and carry.c.
 *
 * New files are written under temporary names, `.pfw-compact-NAME.part` beside NAME, each locked by
 * its writer.  When all are synced and checked, a journal is written that lists them and what they
 * replace.  From then on the change is carried out: new files are renamed, then originals removed.
 * If the process is killed, the next one carries it out.  Unlocked temporary files without a
 * complete journal are leftovers, which are removed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pfw_commit_new {
	char *temporary, *name; /* paths; both in the same directory */
	int fd;			/* locked; -1: read from a journal */
	uint64_t device, inode;
	bool replace; /* replaces an existing file of that name */
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
	char why[512]; /* the last failure in one line, with the path */
};

/* Begin a change in a directory.  Changes left there by killed processes are carried out or
 * removed; *carried gets the number carried out. 0 or -errno with commit->why.  Thread: one at a
 * time, for all functions here. */
int pfw_commit_begin(struct pfw_commit *commit, const char *directory, unsigned *carried);

/* Create the temporary file of `name` (without directory).  Return its descriptor, which the commit
 * owns, or -errno: -EEXIST: the name is taken and `replace` is not set; -EBUSY: another process
 * works on it. */
int pfw_commit_add(struct pfw_commit *commit, const char *name, bool replace);

/* Add the file that was made beside made[number] with its name and `suffix`. 0 or -errno. */
int pfw_commit_add_beside(struct pfw_commit *commit, size_t number, const char *suffix);

/* Drop the file made last. */
void pfw_commit_drop(struct pfw_commit *commit);

/* Remove the original `path`, identified by its stat() values, when the change is carried out. */
int pfw_commit_remove(struct pfw_commit *commit, const char *path, uint64_t device, uint64_t inode,
		      uint64_t bytes, int64_t changed_ns);

/* Carry the change out.  *kept: how many originals stay because they changed.  A failure before the
 * journal is written changes nothing; after a later one the next begin continues. */
int pfw_commit_run(struct pfw_commit *commit, unsigned *kept);

/* Free it, and remove what was not committed. */
void pfw_commit_end(struct pfw_commit *commit);
