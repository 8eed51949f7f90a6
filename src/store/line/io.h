/* store/line/io.h - I/O calls of a trace: their roles (cached), and bytes moved. */
#pragma once

#include "common/calls/table.h"
#include "store/kit/hash.h"
#include "store/line/args.h"

struct pfw_io_call {
	uint8_t role;  /* enum pfw_call_role */
	uint8_t moves; /* enum pfw_call_moves */
};

/* Whether lines of this category are calls on files.  Thread: any. */
static inline bool pfw_is_file_io(const struct pfw_slice *cat)
{
	return pfw_slice_is(cat, "POSIX") || pfw_slice_is(cat, "STDIO");
}

/* Whether lines of this category are calls of libc: on files, on sockets, or that wait.  Thread:
 * any. */
static inline bool pfw_is_io(const struct pfw_slice *cat)
{
	return pfw_is_file_io(cat) || pfw_slice_is(cat, "NET") || pfw_slice_is(cat, "SYNC");
}

/* Whether `fname` names a file.  Pipes, sockets and the like have the kernel's names, but are read
 * and written in no place: a call on them waits for another process.  Thread: any. */
static inline bool pfw_io_names_file(const struct pfw_slice *fname)
{
	return pfw_slice_begins(fname, "/") ||
	       (!pfw_slice_begins(fname, "pipe:[") && !pfw_slice_begins(fname, "socket:[") &&
		!pfw_slice_begins(fname, "anon_inode:") && !pfw_slice_begins(fname, "fds:[") &&
		!pfw_slice_begins(fname, "dns:["));
}

/* The call of a category and a name; the name is canonical or libc's (as in DFTracer's traces).
 * Thread: any. */
struct pfw_io_call pfw_io_call_find(const char *cat, size_t cat_bytes, const char *name,
				    size_t name_bytes);

/* The category of an I/O call, "STDIO", "POSIX", "NET" or "SYNC", for `summed` lines, which have
 * none.  Thread: any. */
const char *pfw_io_call_cat(const char *name, size_t bytes);

/* The calls that a `summed` line adds up. */
struct pfw_io_sums {
	uint64_t calls;
	int64_t ns, bytes; /* not below 0 */
};

/* False: the line says no number of calls, or no time.  Thread: any. */
bool pfw_io_summed(const struct pfw_entry *entry, struct pfw_io_sums *sums);

/* A power of two. */
#define PFW_IO_CALLS 128u

/* A direct-mapped cache of I/O calls by name: a lookup in the table of calls for each line would
 * cost more than parsing the line.  All zero: empty. */
struct pfw_io_calls {
	struct pfw_io_known {
		char name[29];
		uint8_t bytes;
		struct pfw_io_call call;
	} known[PFW_IO_CALLS];
};

/* The call of that name; its cat is one of pfw_is_io().  Thread: any. */
struct pfw_io_call pfw_io_call_named(const struct pfw_slice *name);

/* Fill a cell of the cache. */
void pfw_io_calls_learn(struct pfw_io_known *known, const struct pfw_slice *name);

/* The same by a cache.  Thread: one at a time for one cache. */
static inline struct pfw_io_call pfw_io_calls_find(struct pfw_io_calls *calls,
						   const struct pfw_slice *name)
{
	const uint8_t *at = (const uint8_t *)name->at;
	struct pfw_io_known *known;
	size_t bytes = name->bytes;

	if (!bytes || bytes > sizeof(known->name))
		return pfw_io_call_named(name);
	/* With these factors no two common calls share a cell. */
	known = &calls->known[(at[0] + 19u * at[bytes / 2] + 31u * at[bytes - 1] + 8 * bytes) %
			      PFW_IO_CALLS];
	if (known->bytes != bytes || !pfw_hash_same(known->name, name->at, bytes))
		pfw_io_calls_learn(known, name);
	return known->call;
}

/* The file that a copy writes; its `fname` is the one that it reads.  False: the line is no copy,
 * or says none.  Thread: any. */
static inline bool pfw_io_target(const struct pfw_entry *entry, struct pfw_slice *target)
{
	return pfw_is_io(&entry->cat) && pfw_arg_text(entry, "target", target) &&
	       pfw_io_call_named(&entry->name).role == PFW_ROLE_COPY;
}

/* The bytes of a file that a call mapped into memory; 0: it is no mmap(), or failed.  What the
 * program reads or writes of them makes no call, so they are no bytes moved.  Thread: any. */
static inline uint64_t pfw_io_mapped(const struct pfw_entry *entry)
{
	int64_t length;

	if (!pfw_slice_is(&entry->name, "mmap") && !pfw_slice_is(&entry->name, "mmap64"))
		return 0;
	length = pfw_arg_i64(entry, "length", 0);
	return length > 0 && pfw_arg_i64(entry, "ret", 0) >= 0 ? (uint64_t)length : 0;
}

/* The bytes of a mapping that the process touched, + 1, in a line of munmap() or of the mapping at
 * the end; 0: the line says none.  Thread: any. */
static inline uint64_t pfw_io_touched(const struct pfw_entry *entry)
{
	int64_t touched = pfw_arg_i64(entry, "touched", -1);

	return touched < 0 ? 0 : (uint64_t)touched + 1;
}

/* The line of a mapping that there was at the end of its process.  Thread: any. */
static inline bool pfw_io_is_mapping(const struct pfw_entry *entry)
{
	return entry->ph == 'M' && pfw_slice_is(&entry->name, "mapping") &&
	       pfw_slice_is(&entry->cat, "pfw");
}

/* Whether pfw_io_unmoved() of a line of this name is what was touched, not what was mapped. */
static inline bool pfw_io_tells_touched(const struct pfw_slice *name)
{
	return pfw_slice_is(name, "munmap") || pfw_slice_is(name, "mapping");
}

/* Bytes of a mapping, which are no bytes moved, in a line of a call or of a mapping.  Thread:
 * any. */
static inline uint64_t pfw_io_unmoved(const struct pfw_entry *entry)
{
	uint64_t touched;

	if (!pfw_io_tells_touched(&entry->name))
		return pfw_io_mapped(entry);
	touched = pfw_io_touched(entry);
	return touched ? touched - 1 : 0;
}

/* The arg that pfw_io_moved() needs besides `ret`; negative: there is none. */
static inline int64_t pfw_io_factor(struct pfw_io_call call, const struct pfw_entry *entry)
{
	if (call.moves == PFW_MOVES_ITEMS)
		return pfw_arg_i64(entry, "size", -1);
	return call.moves == PFW_MOVES_COUNT ? pfw_arg_i64(entry, "count", -1) : 0;
}

/* The bytes of a copy, fill or use of memory, which is an event of cat PP.  False: the event is
 * none, or says no bytes.  Thread: any. */
bool pfw_memory_moved(const struct pfw_entry *entry, uint64_t *bytes);

/*
 * The bytes that a call moved, by its `ret` and its pfw_io_factor().  False: none, because it
 * failed (`ret` is negative) or the line has no such arg.  A product that does not fit is
 * INT64_MAX.
 */
static inline bool pfw_io_moved(struct pfw_io_call call, int64_t ret, int64_t factor,
				uint64_t *bytes)
{
	int64_t moved = call.moves == PFW_MOVES_COUNT ? factor : ret;

	*bytes = 0;
	if (ret < 0 || factor < 0 || call.moves == PFW_MOVES_NOTHING ||
	    call.moves == PFW_MOVES_BYTES)
		return false;
	if (call.moves == PFW_MOVES_ITEMS && __builtin_mul_overflow(ret, factor, &moved))
		moved = INT64_MAX;
	*bytes = (uint64_t)moved;
	return true;
}
