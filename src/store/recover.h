/* recover.h - finish the trace of a process that was killed, from the spool it left behind.
 *
 * spool.h describes what a spool holds and why nothing in it is lost or doubled.  A spool is read
 * with full distrust: it may be cut, damaged, or made by somebody who wishes us ill.
 */
#ifndef PFW_RECOVER_H
#define PFW_RECOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pfw_recover_status {
	PFW_RECOVER_DONE,    /* the trace has its missing events and its `end`; the spool is gone */
	PFW_RECOVER_NOTHING, /* nothing was missing; the spool is gone, unless its process lives */
	PFW_RECOVER_LIVE,    /* its process, or another adopter, is at work: left alone */
	PFW_RECOVER_FOREIGN, /* of another host or boot: left alone */
	PFW_RECOVER_BAD, /* not a spool, damaged, or not ours; or the trace could not be written */
};

struct pfw_recovery {
	enum pfw_recover_status status;
	char trace[4096];   /* the trace's path; "" where the spool does not say */
	char why[256];	    /* one line for people: cause and fix; "" where all went as usual */
	char run[128];	    /* the run that the process belonged to */
	int pid;	    /* the process that died, in its own pid namespace */
	uint64_t recovered; /* events appended */
	uint64_t torn;	    /* records that were begun and never finished, or that say nothing */
	uint64_t lost;	    /* what the trace's `end` says was lost, torn included */
	uint64_t cut_bytes; /* of an unfinished write, cut off the trace's end */
};

/*
 * Adopt one spool: append to its trace what its rings still hold, and remove it.  *result is filled
 * in every case.  Return 0 for DONE, NOTHING, LIVE and FOREIGN; for BAD a -errno (-EINVAL for a
 * damaged spool, -EPERM for another user's, else that of the call that failed).  On failure the
 * spool and the good part of the trace stay as they were: nothing is lost, call again.
 * Thread: one at a time for one spool; two processes may race, one of them does it.
 */
int pfw_recover_spool(const char *spool_path, struct pfw_recovery *result);

/* Whether a spool is of this trace and run, as pfw_recover_find() has it. */
bool pfw_recover_belongs(const char *spool_path, const char *trace_or_null,
			 const char *run_or_null);

/*
 * Call each() for every spool in `dirs` (a NULL-terminated array; directories that are not there
 * are skipped) that belongs to `trace` (the same path, or a file that the same path names; of a
 * trace that is not on disk also the base of its name, or its DIRECTORY/; NULL = any) and to `run`
 * (NULL = any), in the order of their names.  With a filter, what is not a readable spool is left
 * out.  each() returns 0 to go on; any other value ends the search.  Return that value, or 0, or
 * -ENOMEM.
 */
int pfw_recover_find(const char *const *dirs, const char *trace_or_null, const char *run_or_null,
		     int (*each)(const char *spool_path, void *user), void *user);

/* More than the directories that are the same for every trace: the one beside it may change often. */
#define PFW_SPOOL_LISTINGS 8

/* The names of the spools in the directories that were looked in last, the last of them first.  Begin
 * with zeroes.  What came since a directory was listed is not in it. */
struct pfw_spool_listings {
	struct pfw_spool_listing {
		char *dir; /* NULL: none any more */
		char **name;
		size_t count;
	} listing[PFW_SPOOL_LISTINGS];
};

/* Where spools may lie, and what is known of it. */
struct pfw_spool_places {
	const char *const *dir;		     /* NULL-terminated */
	struct pfw_spool_listings *listings; /* NULL: directories are listed anew each time */
};

/* pfw_recover_find() for one trace after the other.  Thread: one at a time for the listings. */
int pfw_recover_find_in(const struct pfw_spool_places *dirs, const char *trace_or_null,
			int (*each)(const char *spool_path, void *user), void *user);
void pfw_spool_listings_free(struct pfw_spool_listings *listings);

#endif
