/* common/base/names.h - names of numbers in a trace: errno, kinds of PP events, args of calls.
 *
 * Thread: any.  Signal: safe, all of them.
 */
#pragma once

#include <stdint.h>

/* errno's name ("ENOENT"), or NULL for a number that Linux does not have. */
const char *pfw_errno_name(int error);

/* The name of an enum pfw_kind of pfw.h, or NULL. */
const char *pfw_kind_name(uint64_t kind);

/* Numbers that have names, by what takes them; `none`: flags of which none is defined yet.
 * opens_more: beside an access mode that the call chooses.  A new one increases
 * PFW_SPOOL_VERSION. */
/* clang-format off */
#define PFW_NAMES(X) \
	X(none) X(opens) X(opens_more) X(memfd) X(close_range) X(rwf) X(whence) X(sync_range) \
	X(splice) X(at) X(at_access) X(at_unlink) X(xattr) X(rename) X(ftw) X(glob) X(fts) \
	X(fcntl) X(lockf) X(flock) X(ioctl) X(prot) X(map) X(mremap) X(msync) X(fadvise) \
	X(madvise) X(posix_madvise) X(clone) X(aio_fsync) X(sockets) X(messages)
/* clang-format on */

enum pfw_names {
#define X(set) PFW_NAMES_##set,
	PFW_NAMES(X)
#undef X
		PFW_NAMES_SETS
};

/* Append the names in a number, joined by '|' ("O_WRONLY|O_CREAT"); bits and numbers without a name
 * as hexadecimal digits, nothing at all as "0".  At most PFW_ARG_NAMES_MAX bytes. */
#define PFW_ARG_NAMES_MAX 512
char *pfw_arg_names(char *out, unsigned set, uint64_t value);
