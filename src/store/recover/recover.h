/* store/recover/recover.h - finishes the trace of a killed process from the spool that it left.
 *
 * Room store/recover: spools of dead and living processes: their records as lines, whose they are,
 * and adoption.  It may use all of src/common and every store room before it.  Start here, then
 * recover.c; unwritten.h reads living processes.
 *
 * common/format/spool.h describes a spool and why no event is lost or doubled.  A spool is not
 * trusted: it may be cut, damaged or hostile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pfw_recover_status {
	PFW_RECOVER_DONE,    /* the trace has its missing events and its `end`; the spool is gone */
	PFW_RECOVER_NOTHING, /* nothing was missing; the spool is gone unless its process lives */
	PFW_RECOVER_LIVE,    /* its process lives, or another adopter works on it: left alone */
	PFW_RECOVER_FOREIGN, /* another host's or boot's: left alone */
	PFW_RECOVER_BAD,     /* no spool, damaged, not ours, or the trace could not be written */
};

struct pfw_recovery {
	enum pfw_recover_status status;
	char trace[4096];   /* path of the trace; "" if the spool does not name it */
	char why[256];	    /* a message with cause and fix; "" if all is well */
	char run[128];	    /* the process's run */
	char program[64];   /* the name of its program; "" if unknown */
	int pid;	    /* the dead process's, in its own pid namespace */
	int64_t start_ns;   /* when it began to record, CLOCK_REALTIME; 0 if unknown */
	bool taken;	    /* LIVE because another adopter works on it */
	uint64_t recovered; /* events appended */
	uint64_t torn;	    /* records begun but not finished, or invalid */
	uint64_t lost;	    /* total of the trace's `end`, torn records included */
	uint64_t cut_bytes; /* bytes of an unfinished write, cut off */
};

/* Adopt one spool: append its records to its trace and remove it.  *result is always filled.
 * `place` (a base name of traces, or DIRECTORY/; NULL: none) is where the caller expects the trace.
 * A process that began as root and has dropped its rights still has its spool mapped and can write
 * any path into it, so for a spool of root's root touches nothing outside of `place` but a trace
 * whose first line names the spool.  Another user's spool is adopted with that user's rights.
 * Return 0 for DONE, NOTHING, LIVE and FOREIGN; for BAD -errno (-EINVAL: damaged; -EPERM: another
 * user's; else that of the failed call).  On failure the spool and the good part of the trace stay
 * as before, so the call can be repeated.  Thread: one at a time per spool; of two processes that
 * race, one does it. */
int pfw_recover_spool(const char *spool_path, const char *place, struct pfw_recovery *result);

/* Whether the spool is this user's and its process ended on this host, since this boot, in this pid
 * namespace.  False in doubt, so that nothing needs to be known of other containers. */
bool pfw_recover_is_dead(const char *spool_path);

/* Whether a path is a trace of a base name, or in a directory if that ends in '/'. */
bool pfw_recover_is_in(const char *trace, const char *base);

/* Whether a spool belongs to this trace and run, as for pfw_recover_find().  The spool must be this
 * user's or, for root, that of a user who may have made the trace. */
bool pfw_recover_belongs(const char *spool_path, const char *trace_or_null,
			 const char *run_or_null);

/* Which file the trace of a spool is: of many traces, each spool is opened once to know it. */
struct pfw_spool_trace {
	bool there;
	uint64_t device, inode;
};

struct pfw_spool_trace pfw_recover_trace(const char *spool_path);
/* The same of a trace itself; not `there` for a base name: it may stand for traces never made. */
struct pfw_spool_trace pfw_recover_file(const char *path);

/* Whether a spool may be of a file that was there before its spool was looked at. */
static inline bool pfw_recover_may(const struct pfw_spool_trace *spool,
				   const struct pfw_spool_trace *file)
{
	return !file->there ||
	       (spool->there && spool->device == file->device && spool->inode == file->inode);
}

/* Call each() for every spool in `dirs` (NULL-terminated; missing directories are skipped) that
 * belongs to `trace` and `run`, in order of their names.  `trace` is a path, or a file that the
 * path names; for a trace not on disk also the base of its name, or DIRECTORY/; NULL = any.  `run`
 * NULL = any.  With a filter, unreadable spools are skipped.  A value other than 0 from each() ends
 * the search.  Return that value, 0, or -ENOMEM. */
int pfw_recover_find(const char *const *dirs, const char *trace_or_null, const char *run_or_null,
		     int (*each)(const char *spool_path, void *user), void *user);

/* More than the fixed directories, since the trace's own directory changes from trace to trace. */
#define PFW_SPOOL_LISTINGS 8

/* A cache of directory listings, the last used first.  Begin with zeroes.  Spools made after a
 * listing are not in it. */
struct pfw_spool_listings {
	struct pfw_spool_listing {
		char *dir; /* NULL: end of the list */
		char **name;
		struct pfw_spool_trace *trace; /* of each name */
		size_t count;
	} listing[PFW_SPOOL_LISTINGS];
};

/* The directories to search, and their cached listings. */
struct pfw_spool_places {
	const char *const *dir;		     /* NULL-terminated */
	struct pfw_spool_listings *listings; /* NULL: list directories each time */
};

/* As pfw_recover_find(), for many traces in turn.  Thread: one at a time per listings. */
int pfw_recover_find_in(const struct pfw_spool_places *dirs, const char *trace_or_null,
			const char *run_or_null, int (*each)(const char *spool_path, void *user),
			void *user);
void pfw_spool_listings_free(struct pfw_spool_listings *listings);
