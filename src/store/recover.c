/* recover.c - adopt the spool of a killed process: whose it is, who may, and where its lines go.
 *
 * Locks: flock on the spool first (one adopter at a time), then flock on the trace (its writer, if
 * it lives where we cannot see its pid).  Both go when the adopter dies.  A spool that is ADOPTED
 * and not locked was left by an adopter that died: it is adopted again from the start, since the
 * cut at the slot's offset undoes whatever was appended.  A trace that must be made anew is made
 * under a temporary name that only this spool can have, and gets its own name when it is complete.
 */
#include "recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gzip.h"
#include "naming.h"
#include "proc.h"
#include "spool_home.h"
#include "spool_image.h"
#include "spool_lines.h"
#include "trace_owner.h"
#include "whole.h"

struct adoption {
	const char *spool_path;
	struct pfw_recovery *result;
	struct pfw_spool_image image;
	uint32_t state;		      /* as it was found */
	int trace_fd;		      /* -1: to be made */
	uint64_t offset;	      /* of the trace, where our text begins */
	char temporary[PFW_PATH_MAX]; /* of a trace to be made */
	/* While lines are written. */
	uint64_t at;
	struct pfw_gzip *gzip;
	void *member;
};

/* Set status and reason; return error, for `return say(…)`. */
__attribute__((format(printf, 4, 5))) static int
say(struct pfw_recovery *result, enum pfw_recover_status status, int error, const char *format, ...)
{
	va_list args;

	result->status = status;
	va_start(args, format);
	vsnprintf(result->why, sizeof(result->why), format, args);
	va_end(args);
	return error;
}

static int fail(struct adoption *adoption, int error, const char *what, const char *path)
{
	return say(adoption->result, PFW_RECOVER_BAD, error,
		   "%s %.120s: %s; nothing is lost: put that right and repair again", what, path,
		   strerror(-error));
}

/* ---- the spool's state ---- */

/* Change the state in the file, seen by a writer that may still have it mapped.  False: it was
 * another.  Mapped only for this moment: the file's owner may cut it while it is mapped. */
static bool change_state(int fd, uint32_t from, uint32_t to)
{
	struct pfw_spool_header *header =
		mmap(NULL, PFW_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	bool changed;

	if (header == MAP_FAILED)
		return false;
	/* Pairs with the writer's load before each write. */
	changed = atomic_compare_exchange_strong_explicit(
		&header->state, &from, to, memory_order_acq_rel, memory_order_acquire);
	munmap(header, PFW_PAGE_BYTES);
	return changed;
}

/* Remove the spool, unless its name is another file's by now. */
static void remove_spool(const char *path, int fd)
{
	struct stat named, opened;

	if (!fstat(fd, &opened) && !lstat(path, &named) && named.st_dev == opened.st_dev &&
	    named.st_ino == opened.st_ino)
		unlink(path);
}

/* ---- writing ---- */

static int put_text(struct adoption *adoption, const char *text, size_t bytes,
		    const struct pfw_json *json)
{
	struct pfw_gzip_summary summary = { .lines = (uint32_t)json->lines,
					    .least_ns = json->least_ns,
					    .greatest_ns = json->greatest_ns };
	int64_t member;

	if (!adoption->gzip)
		return pfw_write_whole(adoption->trace_fd, text, bytes, &adoption->at);
	member = pfw_gzip_member(adoption->gzip, adoption->member,
				 pfw_gzip_bound(PFW_GZIP_TEXT_MAX), text, bytes, &summary);
	return member < 0 ? (int)member
			  : pfw_write_whole(adoption->trace_fd, adoption->member, (size_t)member,
					    &adoption->at);
}

static int open_gzip(struct adoption *adoption)
{
	int error;

	if (!adoption->image.header->compressed)
		return 0;
	error = pfw_gzip_open(&adoption->gzip);
	if (error)
		return error;
	adoption->member = malloc(pfw_gzip_bound(PFW_GZIP_TEXT_MAX));
	return adoption->member ? 0 : -ENOMEM;
}

static void close_gzip(struct adoption *adoption)
{
	if (adoption->gzip)
		pfw_gzip_close(adoption->gzip);
	free(adoption->member);
}

/*
 * Cut the unfinished write off.  The writer may have put blanks in place of the good part's last line
 * break and further on, so that what it wrote next began a page: the line ends where it did before.
 */
static int cut_trace(const struct adoption *adoption)
{
	bool text = adoption->offset && !adoption->image.header->compressed;
	char last = '\n';

	if (ftruncate(adoption->trace_fd, (off_t)adoption->offset) < 0 ||
	    (text && pread(adoption->trace_fd, &last, 1, (off_t)adoption->offset - 1) < 0) ||
	    (last == ' ' && pwrite(adoption->trace_fd, "\n", 1, (off_t)adoption->offset - 1) != 1))
		return -errno;
	return 0;
}

/* What the spool still holds, behind the good part. */
static int put_lines(struct adoption *adoption)
{
	struct pfw_spool_lines lines = {
		.spool_path = adoption->spool_path,
		.first_line = !adoption->offset,
	};
	int error = pfw_spool_lines_begin(&lines, &adoption->image);
	const char *text;
	size_t bytes;

	if (error)
		return error;
	while (!error && (bytes = pfw_spool_lines_next(&lines, &text)))
		error = put_text(adoption, text, bytes, &lines.json);
	pfw_spool_lines_end(&lines);
	adoption->result->recovered = lines.recovered;
	adoption->result->torn = lines.torn;
	adoption->result->lost = lines.lost;
	return error;
}

/* Cut the unfinished write off, append the lines, and see that they are on the disk. */
static int write_lines(struct adoption *adoption)
{
	int error = open_gzip(adoption);

	if (!error)
		error = cut_trace(adoption);
	adoption->at = adoption->offset;
	if (!error)
		error = put_lines(adoption);
	if (!error && fsync(adoption->trace_fd) < 0)
		error = -errno;
	close_gzip(adoption);
	return error;
}

/* ---- a trace to be made ---- */

/* Make the temporary file; one that is there was left by an adopter of this spool that died. */
static int make_temporary(struct adoption *adoption)
{
	const struct pfw_spool_header *header = adoption->image.header;
	const char *trace = adoption->result->trace, *slash = strrchr(trace, '/');
	int length = snprintf(adoption->temporary, sizeof(adoption->temporary),
			      "%.*s/.pfw-recover-%d-%llu", (int)(slash - trace), trace, header->pid,
			      (unsigned long long)header->start_time);

	if (length >= (int)sizeof(adoption->temporary))
		return -ENAMETOOLONG;
	unlink(adoption->temporary);
	adoption->trace_fd =
		open(adoption->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return adoption->trace_fd < 0 ? -errno : 0;
}

/* Give a file a name that nobody has.  File systems without that promise have link(). */
static int rename_free(const char *from, const char *to)
{
	if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (link(from, to) < 0)
		return -errno;
	unlink(from);
	return 0;
}

/* The process was killed between making its trace and noting that in the header: an empty file
 * that nobody has locked is taken over, as its writer would have. */
static bool take_empty(const char *from, const char *to)
{
	int fd = open(to, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	bool taken = fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) &&
		     S_ISREG(st.st_mode) && !st.st_size && !rename(from, to);

	if (fd >= 0)
		close(fd);
	return taken;
}

/* Name number n of the trace: 1 is the one in the header. */
static int numbered(char *out, const struct adoption *adoption, unsigned n)
{
	const char *trace = pfw_spool_image_trace(&adoption->image);

	if (n >= 2)
		return pfw_name_numbered(out, trace, n);
	strcpy(out, trace); /* checked to end within PFW_PATH_MAX */
	return 0;
}

/* The least number that a trace made anew may have: its own name only if it was never made. */
static unsigned first_number(const struct adoption *adoption)
{
	return adoption->image.header->file_made ? 2 : 1;
}

#define NUMBERS_MAX 10000u

/* Name the finished file: result->trace gets the name. */
static int publish(struct adoption *adoption)
{
	char name[PFW_PATH_MAX];
	int error = -EEXIST;

	for (unsigned n = first_number(adoption); error == -EEXIST && n < NUMBERS_MAX; n++) {
		error = numbered(name, adoption, n);
		if (error)
			return error;
		error = rename_free(adoption->temporary, name);
		if (error == -EEXIST && n == 1 && take_empty(adoption->temporary, name))
			error = 0;
	}
	if (!error)
		strcpy(adoption->result->trace, name);
	return error;
}

/* Whether an adopter that died had finished the new trace: only complete ones have such a name. */
static bool published_before(struct adoption *adoption)
{
	char name[PFW_PATH_MAX];

	if (adoption->state != PFW_SPOOL_ADOPTED)
		return false;
	for (unsigned n = first_number(adoption); n < NUMBERS_MAX; n++) {
		enum pfw_trace_owner owner;
		int fd;

		if (numbered(name, adoption, n))
			return false;
		fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			return false;
		owner = pfw_trace_owner(fd, adoption->image.header);
		close(fd);
		if (owner == PFW_TRACE_OURS) {
			strcpy(adoption->result->trace, name);
			return true;
		}
	}
	return false;
}

/* ---- the trace ---- */

/* The trace cannot be continued: say why, and have a new one made. */
static int make_anew(struct adoption *adoption, const char *why)
{
	if (adoption->trace_fd >= 0)
		close(adoption->trace_fd);
	adoption->trace_fd = -1;
	adoption->offset = 0;
	say(adoption->result, PFW_RECOVER_DONE, 0, "%s", why);
	return 0;
}

/*
 * Open and lock the trace where it can be continued; else leave trace_fd -1, for a new one.  What
 * the path names now must be proved to be this process's: the file may have been removed and the
 * name given to a later run, whose lines a cut would destroy.
 */
static int open_trace(struct adoption *adoption)
{
	const char *path = adoption->result->trace;
	enum pfw_trace_owner owner;
	struct stat st;
	int error;

	adoption->offset = adoption->image.slot.offset;
	if (!adoption->image.header->file_made) {
		adoption->offset = 0;
		return 0;
	}
	adoption->trace_fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (adoption->trace_fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return make_anew(adoption, "the trace was removed; what was left is in a new one");
	if (adoption->trace_fd < 0 && errno != ELOOP)
		return fail(adoption, -errno, "cannot open", path);
	if (adoption->trace_fd < 0 || fstat(adoption->trace_fd, &st) < 0 || !S_ISREG(st.st_mode))
		return make_anew(adoption, "the trace's name is no regular file now; what was left "
					   "is in a new one");
	owner = pfw_trace_owner(adoption->trace_fd, adoption->image.header);
	if (owner == PFW_TRACE_OTHER)
		return make_anew(adoption, "the trace's name is another process's now; what was "
					   "left is in a new one");
	error = flock(adoption->trace_fd, LOCK_EX | LOCK_NB) < 0 ? errno : 0;
	if (error == EWOULDBLOCK)
		return say(adoption->result, PFW_RECOVER_LIVE, 0,
			   "its trace is locked: its writer lives, perhaps in another pid "
			   "namespace; repair when it has ended");
	if (error)
		return fail(adoption, -error, "cannot lock", path);
	if ((uint64_t)st.st_size < adoption->offset ||
	    (owner == PFW_TRACE_UNKNOWN && adoption->offset))
		return make_anew(adoption,
				 "the trace is shorter than it was; what was left is in a "
				 "new one");
	adoption->result->cut_bytes = (uint64_t)st.st_size - adoption->offset;
	return 0;
}

/* ---- adopting ---- */

/* Put everything back: the trace's good part and the spool are as they were found. */
static int give_up(struct adoption *adoption, int error)
{
	struct pfw_recovery *result = adoption->result;
	int cut = 0;

	if (adoption->temporary[0])
		unlink(adoption->temporary);
	else if (adoption->trace_fd >= 0)
		cut = cut_trace(adoption);
	if (cut)
		error = cut; /* no harm: the next adopter cuts at the same place */
	change_state(adoption->image.fd, PFW_SPOOL_ADOPTED, PFW_SPOOL_LIVE);
	result->recovered = result->torn = result->lost = result->cut_bytes = 0;
	return fail(adoption, error, "cannot write", result->trace);
}

static int finish(struct adoption *adoption)
{
	struct pfw_recovery *result = adoption->result;

	result->status = PFW_RECOVER_DONE;
	if (adoption->image.damaged && !result->why[0])
		say(result, PFW_RECOVER_DONE, 0,
		    "%llu damaged parts of the spool were left out and counted as torn",
		    (unsigned long long)adoption->image.damaged);
	change_state(adoption->image.fd, PFW_SPOOL_ADOPTED, PFW_SPOOL_DONE);
	remove_spool(adoption->spool_path, adoption->image.fd);
	return 0;
}

/* The trace is locked, or is to be made: take the spool and do it. */
static int adopt_locked(struct adoption *adoption)
{
	int error = 0;

	if (!change_state(adoption->image.fd, adoption->state, PFW_SPOOL_ADOPTED))
		return say(adoption->result, PFW_RECOVER_LIVE, 0,
			   "its process has just changed it: it lives; repair when it has ended");
	if (adoption->trace_fd < 0 && published_before(adoption))
		return finish(adoption);
	if (adoption->trace_fd < 0)
		error = make_temporary(adoption);
	if (!error)
		error = write_lines(adoption);
	if (!error && adoption->temporary[0])
		error = publish(adoption);
	return error ? give_up(adoption, error) : finish(adoption);
}

static int adopt(struct adoption *adoption)
{
	const struct pfw_spool_header *header = adoption->image.header;
	int error = pfw_spool_image_chunks(&adoption->image, adoption->result->why);

	if (error)
		return adoption->result->why[0]
			       ? error
			       : fail(adoption, error, "cannot read", adoption->spool_path);
	if (!header->file_made && !pfw_spool_has_lines(&adoption->image)) {
		remove_spool(adoption->spool_path, adoption->image.fd);
		return say(adoption->result, PFW_RECOVER_NOTHING, 0, "it recorded nothing");
	}
	if (!adoption->result->trace[0])
		return say(adoption->result, PFW_RECOVER_BAD, -EINVAL,
			   "the spool does not name its trace");
	error = open_trace(adoption);
	if (!error && adoption->result->status != PFW_RECOVER_LIVE)
		error = adopt_locked(adoption);
	if (adoption->trace_fd >= 0)
		close(adoption->trace_fd);
	return error;
}

/* Whether the process that the header names runs here, elsewhere, or no more. */
static int examine(struct adoption *adoption)
{
	const struct pfw_spool_header *header = adoption->image.header;
	struct pfw_recovery *result = adoption->result;
	bool alive;

	if (!pfw_spool_is_of_here(header, result->why, sizeof(result->why))) {
		result->status = PFW_RECOVER_FOREIGN;
		return 0;
	}
	adoption->state = atomic_load_explicit(&header->state, memory_order_relaxed);
	alive = pfw_spool_process_lives(adoption->image.fd, header);
	if (adoption->state == PFW_SPOOL_DONE) {
		if (!alive) /* else it has stopped recording, or is another program by exec */
			remove_spool(adoption->spool_path, adoption->image.fd);
		return say(result, PFW_RECOVER_NOTHING, 0, "its trace had its end already");
	}
	if (alive)
		return say(result, PFW_RECOVER_LIVE, 0,
			   "its process %d runs: repair when it has ended", header->pid);
	if (adoption->state == PFW_SPOOL_LIVE || adoption->state == PFW_SPOOL_ADOPTED)
		return adopt(adoption);
	return say(result, PFW_RECOVER_BAD, -EINVAL, "damaged spool: its state %u makes no sense",
		   adoption->state);
}

/* A spool without a whole header: its name, pfw-UID-PID-START.spool, says whose it was to be. */
static int examine_unborn(const char *path, int fd, struct pfw_recovery *result)
{
	const char *slash = strrchr(path, '/');
	unsigned long long start_time;
	unsigned uid;
	int pid;

	if (sscanf(slash ? slash + 1 : path, "pfw-%u-%d-%llu.spool", &uid, &pid, &start_time) !=
		    3 ||
	    pid <= 0)
		return say(result, PFW_RECOVER_BAD, -EINVAL, "not a spool of pfw: it is too short");
	result->pid = pid;
	if (pfw_proc_alive(pid, start_time) || pfw_proc_alive_inside(pid, start_time, 0))
		return say(result, PFW_RECOVER_LIVE, 0,
			   "its process %d runs: repair when it has ended", pid);
	remove_spool(path, fd);
	return say(result, PFW_RECOVER_NOTHING, 0, "its process died while making it");
}

static int recover_locked(const char *path, int fd, struct pfw_recovery *result)
{
	struct adoption adoption = { .spool_path = path, .result = result, .trace_fd = -1 };
	int error = pfw_spool_image_header(&adoption.image, fd, result->why);

	if (error == -ENODATA) {
		error = examine_unborn(path, fd, result);
	} else if (error) {
		if (!result->why[0])
			fail(&adoption, error, "cannot read", path);
	} else {
		const struct pfw_spool_header *header = adoption.image.header;

		strcpy(result->trace, pfw_spool_image_trace(&adoption.image));
		snprintf(result->run, sizeof(result->run), "%.*s", (int)sizeof(header->run) - 1,
			 header->run);
		result->pid = header->pid;
		result->status = PFW_RECOVER_DONE;
		error = examine(&adoption);
	}
	pfw_spool_image_release(&adoption.image);
	if (error)
		result->status = PFW_RECOVER_BAD;
	return error;
}

/*
 * Root adopts other people's spools as these people: the path in a spool is its owner's word, and
 * must not reach a file that the owner could not.
 */
static int recover_as_owner(const char *path, int fd, const struct stat *st,
			    struct pfw_recovery *result)
{
	bool other = st->st_uid != geteuid();
	int error;

	if (other) {
		setfsgid(st->st_gid);
		setfsuid(st->st_uid);
		if ((uid_t)setfsuid((uid_t)-1) != st->st_uid)
			return say(result, PFW_RECOVER_BAD, -EPERM,
				   "cannot act as its owner, user %u: repair as that user",
				   st->st_uid);
	}
	error = recover_locked(path, fd, result);
	if (other) {
		setfsuid(geteuid());
		setfsgid(getegid());
	}
	return error;
}

/* Open what must be a regular file of ours; root's are all. */
static int open_spool(const char *path, struct stat *st, struct pfw_recovery *result)
{
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	int error = errno;

	if (fd < 0 && error == ENOENT)
		return say(result, PFW_RECOVER_NOTHING, -ENOENT, "it is gone: adopted by another");
	if (fd < 0)
		return say(result, PFW_RECOVER_BAD, -error, "cannot open the spool: %s",
			   error == ELOOP ? "it is a symbolic link" : strerror(error));
	if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode)) {
		close(fd);
		return say(result, PFW_RECOVER_BAD, -EINVAL, "not a spool: no regular file");
	}
	if (geteuid() && st->st_uid != geteuid()) {
		close(fd);
		return say(result, PFW_RECOVER_BAD, -EPERM,
			   "it is user %u's: repair as that user or as root", st->st_uid);
	}
	return fd;
}

int pfw_recover_spool(const char *spool_path, struct pfw_recovery *result)
{
	struct stat st;
	int error, fd;

	memset(result, 0, sizeof(*result));
	fd = open_spool(spool_path, &st, result);
	if (fd < 0)
		return result->status == PFW_RECOVER_NOTHING ? 0 : fd;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		error = say(result, PFW_RECOVER_LIVE, 0, "another pfw is adopting it");
	else if (!fstat(fd, &st) && !st.st_nlink)
		error = say(result, PFW_RECOVER_NOTHING, 0, "it is gone: adopted by another");
	else
		error = recover_as_owner(spool_path, fd, &st, result);
	close(fd);
	return error;
}
