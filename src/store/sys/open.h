/* store/sys/open.h - opens every file that a command or the store reads, writes or makes.
 *
 * A path may come from the user, from a trace or a spool, or from a directory where others write.
 * So a file's type is known before it is opened (opening a device may do something), a symbolic
 * link is followed only where the user named it, and a new file replaces nothing.
 * docs/security.rst says what each rule is for; tests/security holds the tree to opening files here
 * only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

enum pfw_open_rule {
	PFW_OPEN_WRITE = 1 << 0, /* for reading and writing; otherwise for reading */
	PFW_OPEN_LINK = 1 << 1,	 /* the path may be a symbolic link, as the user named it */
	PFW_OPEN_PIPE = 1 << 2,	 /* it may be a pipe */
	PFW_OPEN_MINE = 1 << 3,	 /* it must belong to this user */
};

/*
 * Open an existing regular file (or pipe) by these rules and fill *st, which may be NULL.  Never
 * waits.  Return its descriptor, or -ELOOP for a link, -EISDIR, -ENODEV for another type, -EPERM
 * for another user's, or the error of open().  Thread: any, as all here.
 */
int pfw_open_file(const char *path, unsigned rules, struct stat *st);

/* Create a file for reading and writing; -EEXIST if the name is taken, also by a link. */
int pfw_open_new(const char *path, mode_t mode);

/*
 * Rename a file or a directory to a name that is free.  0, -EEXIST: it is not; or -errno.  Without the kernel's
 * help (NFS, many file systems of FUSE) another process may see an empty file of that name for a moment.
 */
int pfw_rename_new(const char *from, const char *to);

/* When a file's content was last changed, in ns since the epoch. */
int64_t pfw_changed_ns(const struct stat *st);

/* The directory of a path, *bytes bytes without a '\0' at the end. */
const char *pfw_directory_of(const char *path, size_t *bytes);

/* The path with its directory resolved, to be freed; what it names need not exist.  NULL with errno. */
char *pfw_whole_path(const char *path);

/* Open a directory, to sync it. */
int pfw_open_directory(const char *path);

/* Open a directory below `root`, another process's root: no link of that process leads out of
 * it. */
int pfw_open_inside(const char *root, const char *path);

/* Whether a file's content may be believed: it belongs to this user, to root, or to `owner`. */
bool pfw_is_trusted(const struct stat *st, uid_t owner);

/* Whether a file has a writer, by its locks and open descriptors. */
enum pfw_writing {
	PFW_WRITING_NONE,
	PFW_WRITING_ACTIVE,  /* locked, or open for writing in another process of this host */
	PFW_WRITING_UNKNOWN, /* the file system has no locks, or it cannot be opened */
};

enum pfw_writing pfw_writing_of(const char *path);

/* Whether another process of this host, in any namespace, has the file open: for writing (false in
 * doubt), or at all (true in doubt). */
bool pfw_is_open_elsewhere(int fd);
