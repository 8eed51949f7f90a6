/* store/recover/recover.c - adopts the spool of a killed process: see recover.h.
 *
 * Locks: first flock on the spool (one adopter at a time), then flock on the trace (its writer may
 * live in a pid namespace that we do not see).  Both end with the adopter.  A spool that is ADOPTED
 * and unlocked was left by an adopter that died: it is adopted again from the start, because the
 * cut at the slot's offset undoes what was appended.  A new trace is written under a temporary name
 * that only this spool can have, and renamed when it is complete.
 */
#include "store/recover/recover.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/format/gzip.h"
#include "common/settings/naming.h"
#include "store/recover/image.h"
#include "store/recover/lines.h"
#include "store/recover/owner.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"
#include "store/sys/proc.h"

struct adoption {
	const char *spool_path, *place;
	uid_t user; /* the spool's */
	struct pfw_recovery *result;
	struct pfw_spool_image image;
	uint32_t state;		      /* before the adoption */
	bool bound;		      /* only a trace that names this spool may be written */
	int trace_fd;		      /* -1: a new trace is needed */
	uint64_t offset;	      /* where our text begins in the trace */
	char temporary[PFW_PATH_MAX]; /* name of the new trace */
	/* While lines are written. */
	uint64_t at;
	struct pfw_gzip *gzip;
	void *member;
};

/* Set status and reason; return error, for `return say(...)`. */
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
		   "%s %.120s: %s; nothing more is lost: put that right and repair again", what,
		   path, strerror(-error));
}

/* Fill in what the header says of the process. */
static void describe(struct pfw_recovery *result, const struct pfw_spool_image *image)
{
	const struct pfw_spool_header *header = image->header;

	pfw_spool_program(header, result->program, sizeof(result->program));
	snprintf(result->run, sizeof(result->run), "%.*s", (int)sizeof(header->run) - 1,
		 header->run);
	strcpy(result->trace, pfw_spool_trace_path(image->header));
	result->pid = header->pid;
	result->start_ns = (int64_t)header->start_ns;
}

/* ---- the spool's state ---- */

static _Thread_local sigjmp_buf cut_off;

static void on_bus_error(int number)
{
	(void)number;
	siglongjmp(cut_off, 1);
}

/* Change the state in the file, where a writer that still has it mapped sees it.  False: the state
 * was not `from`.  The file's owner may truncate it in this moment, which is a SIGBUS. */
static bool change_state(int fd, uint32_t from, uint32_t to)
{
	struct pfw_spool_header *header =
		mmap(NULL, PFW_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct sigaction ours = { .sa_handler = on_bus_error }, before;
	volatile bool changed = false;

	if (header == MAP_FAILED)
		return false;
	sigaction(SIGBUS, &ours, &before);
	/* Pairs with the writer's load before each write. */
	if (!sigsetjmp(cut_off, 1))
		changed = atomic_compare_exchange_strong_explicit(
			&header->state, &from, to, memory_order_acq_rel, memory_order_acquire);
	sigaction(SIGBUS, &before, NULL);
	munmap(header, PFW_PAGE_BYTES);
	return changed;
}

/* Remove the spool, unless its name belongs to another file by now. */
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
		return pfw_full_write(adoption->trace_fd, text, bytes, &adoption->at);
	member = pfw_gzip_member(adoption->gzip, adoption->member,
				 pfw_gzip_bound(PFW_GZIP_TEXT_MAX), text, bytes, &summary);
	return member < 0 ? (int)member
			  : pfw_full_write(adoption->trace_fd, adoption->member, (size_t)member,
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

/* Cut the unfinished write off.  The writer may have replaced the last line break of the good part
 * by blanks, to begin the next write on a page: restore the line's end. */
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

/* Append the spool's lines after the good part. */
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

/* Cut the unfinished write off, append the lines and sync the file. */
static int write_lines(struct adoption *adoption)
{
	int error = open_gzip(adoption) ?: cut_trace(adoption);

	adoption->at = adoption->offset;
	error = error ?: put_lines(adoption);
	if (!error && fsync(adoption->trace_fd) < 0)
		error = -errno;
	close_gzip(adoption);
	return error;
}

/* ---- a new trace ---- */

/* Create the temporary file.  An existing one was left by an adopter of this spool that died. */
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
	adoption->trace_fd = pfw_open_new(adoption->temporary, 0600);
	return adoption->trace_fd < 0 ? adoption->trace_fd : 0;
}

/* The process was killed after creating its trace and before noting that in the header: take over
 * an empty, unlocked file, as its writer would have. */
static bool take_empty(const char *from, const char *to)
{
	struct stat st;
	int fd = pfw_open_file(to, PFW_OPEN_WRITE | PFW_OPEN_MINE, &st);
	bool taken = fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && !st.st_size &&
		     !rename(from, to);

	if (fd >= 0)
		close(fd);
	return taken;
}

/* Name `n` of the trace: 1 is the name in the header. */
static int numbered(char *out, const struct adoption *adoption, unsigned n)
{
	const char *trace = pfw_spool_trace_path(adoption->image.header);

	if (n >= 2)
		return pfw_name_numbered(out, trace, n);
	strcpy(out, trace); /* checked to fit in PFW_PATH_MAX */
	return 0;
}

/* The first name to try for a new trace: 1 only if the trace was never created. */
static unsigned first_number(const struct adoption *adoption)
{
	return adoption->image.header->file_made ? 2 : 1;
}

#define NUMBERS_MAX 10000u

/* Rename the finished file and put its name into result->trace. */
static int publish(struct adoption *adoption)
{
	char name[PFW_PATH_MAX];
	int error = -EEXIST;

	for (unsigned n = first_number(adoption); error == -EEXIST && n < NUMBERS_MAX; n++) {
		error = numbered(name, adoption, n);
		if (error)
			return error;
		error = pfw_rename_new(adoption->temporary, name);
		if (error == -EEXIST && n == 1 && take_empty(adoption->temporary, name))
			error = 0;
	}
	if (!error)
		strcpy(adoption->result->trace, name);
	return error;
}

/* Whether an adopter that died had finished the new trace: only complete ones get such a name. */
static bool published_before(struct adoption *adoption)
{
	char name[PFW_PATH_MAX];

	if (adoption->state != PFW_SPOOL_ADOPTED)
		return false;
	for (unsigned n = first_number(adoption); n < NUMBERS_MAX; n++) {
		enum pfw_owner owner;
		int fd;

		if (numbered(name, adoption, n))
			return false;
		fd = pfw_open_file(name, 0, NULL);
		if (fd < 0)
			return false;
		owner = pfw_owner_of(fd, adoption->image.header, NULL);
		close(fd);
		if (owner == PFW_TRACE_OURS) {
			strcpy(adoption->result->trace, name);
			return true;
		}
	}
	return false;
}

/* ---- the trace ---- */

static int refuse_bound(struct adoption *adoption)
{
	const char *trace = adoption->result->trace;

	return say(adoption->result, PFW_RECOVER_BAD, -EPERM,
		   "root writes no file at a path that only a spool names; to allow it: `pfw "
		   "repair %.120s`",
		   trace);
}

/* The trace cannot be continued: note why, and write a new one. */
static int make_anew(struct adoption *adoption, const char *why)
{
	if (adoption->bound)
		return refuse_bound(adoption);
	if (adoption->trace_fd >= 0)
		close(adoption->trace_fd);
	adoption->trace_fd = -1;
	adoption->offset = 0;
	say(adoption->result, PFW_RECOVER_DONE, 0, "%s", why);
	return 0;
}

/* Open and lock the trace if it can be continued; otherwise leave trace_fd -1.  The file must be
 * proved to be this process's: it may have been removed and its name given to a later run, whose
 * lines a cut would destroy. */
static int open_trace(struct adoption *adoption)
{
	const char *path = adoption->result->trace;
	enum pfw_owner owner;
	struct stat st, spool;
	int error;

	adoption->offset = adoption->image.slot.offset;
	if (!adoption->image.header->file_made) {
		adoption->offset = 0;
		return adoption->bound ? refuse_bound(adoption) : 0;
	}
	adoption->trace_fd = pfw_open_file(path, PFW_OPEN_WRITE, &st);
	if (adoption->trace_fd == -ENOENT || adoption->trace_fd == -ENOTDIR)
		return make_anew(adoption, "the trace was removed; what was left is in a new one");
	if (adoption->trace_fd == -ELOOP || adoption->trace_fd == -EISDIR ||
	    adoption->trace_fd == -ENODEV)
		return make_anew(adoption, "the trace's name is no regular file now; what was left "
					   "is in a new one");
	if (adoption->trace_fd < 0)
		return fail(adoption, adoption->trace_fd, "cannot open", path);
	if (st.st_uid != adoption->user)
		return make_anew(adoption, "the trace is another user's now; what was left is in a "
					   "new one");
	if (adoption->bound && fstat(adoption->image.fd, &spool) < 0)
		return fail(adoption, -errno, "cannot look at", adoption->spool_path);
	owner = pfw_owner_of(adoption->trace_fd, adoption->image.header,
			     adoption->bound ? &spool : NULL);
	if (adoption->bound && owner == PFW_TRACE_UNKNOWN)
		owner = PFW_TRACE_OTHER;
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

/* Undo the adoption: the good part of the trace and the spool stay as before. */
static int give_up(struct adoption *adoption, int error)
{
	struct pfw_recovery *result = adoption->result;
	int cut = 0;

	if (adoption->temporary[0])
		unlink(adoption->temporary);
	else if (adoption->trace_fd >= 0)
		cut = cut_trace(adoption);
	if (cut)
		error = cut; /* harmless: the next adopter cuts at the same offset */
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

/* The trace is locked or new: adopt the spool. */
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
	error = error ?: write_lines(adoption);
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
	adoption->bound =
		!geteuid() &&
		(!adoption->place || !pfw_recover_is_in(adoption->result->trace, adoption->place));
	error = open_trace(adoption);
	if (!error && adoption->result->status != PFW_RECOVER_LIVE)
		error = adopt_locked(adoption);
	if (adoption->trace_fd >= 0)
		close(adoption->trace_fd);
	return error;
}

/* Whether the header's process runs here, is of another machine, or has ended. */
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
		if (!alive) /* otherwise it has stopped recording, or has exec'ed */
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

/* A spool without a complete header: its name, pfw-UID-PID-START.spool, names the process. */
static int examine_unborn(const char *path, int fd, struct pfw_recovery *result)
{
	unsigned long long start_time;
	unsigned uid;
	int pid;

	if (sscanf(pfw_text_base(path), "pfw-%u-%d-%llu.spool", &uid, &pid, &start_time) != 3 ||
	    pid <= 0)
		return say(result, PFW_RECOVER_BAD, -EINVAL, "not a spool of pfw: it is too short");
	result->pid = pid;
	if (pfw_proc_alive(pid, start_time) || pfw_proc_alive_inside(pid, start_time, 0))
		return say(result, PFW_RECOVER_LIVE, 0,
			   "its process %d runs: repair when it has ended", pid);
	remove_spool(path, fd);
	return say(result, PFW_RECOVER_NOTHING, 0, "its process died while making it");
}

static int recover_locked(struct adoption *adoption, int fd)
{
	struct pfw_recovery *result = adoption->result;
	int error = pfw_spool_image_header(&adoption->image, fd, result->why);

	if (error == -ENODATA) {
		error = examine_unborn(adoption->spool_path, fd, result);
	} else if (error) {
		if (!result->why[0])
			fail(adoption, error, "cannot read", adoption->spool_path);
	} else {
		describe(result, &adoption->image);
		result->status = PFW_RECOVER_DONE;
		error = examine(adoption);
	}
	pfw_spool_image_release(&adoption->image);
	if (error)
		result->status = PFW_RECOVER_BAD;
	return error;
}

/* Take the rights of a user: his groups, or none if he has no name here.  The real user stays root,
 * so that he cannot stop or kill us meanwhile.  False: this failed. */
static bool become(uid_t user)
{
	const struct passwd *entry = getpwuid(user);
	gid_t nobody = (gid_t)-2 & 0xffff;

	if (entry ? initgroups(entry->pw_name, entry->pw_gid) : setgroups(0, NULL))
		return false;
	return !setegid(entry ? entry->pw_gid : nobody) && !seteuid(user);
}

/* Root adopts another user's spool with that user's rights: the path in a spool is its owner's
 * claim and must not reach a file that the owner could not write. */
static int recover_as_owner(struct adoption *adoption, int fd)
{
	gid_t groups[256], group = getegid();
	int count = getgroups(256, groups), error;

	if (adoption->user == geteuid())
		return recover_locked(adoption, fd);
	if (count >= 0 && become(adoption->user))
		error = recover_locked(adoption, fd);
	else
		error = say(adoption->result, PFW_RECOVER_BAD, -EPERM,
			    "cannot act as its owner, user %u: repair as that user",
			    adoption->user);
	if (seteuid(0) || setegid(group) || (count >= 0 && setgroups((size_t)count, groups)))
		abort(); /* never go on with only a part of another user's rights */
	return error;
}

/* Open a spool: a regular file of the user's; root may open any. */
static int open_spool(const char *path, struct stat *st, struct pfw_recovery *result)
{
	int fd = pfw_spool_image_open(path, true, st);

	if (fd >= 0)
		return fd;
	if (fd == -ENOENT)
		return say(result, PFW_RECOVER_NOTHING, fd, "it is gone: adopted by another");
	if (fd == -EPERM)
		return say(result, PFW_RECOVER_BAD, fd,
			   "it is another user's: repair as that user or as root");
	return say(result, PFW_RECOVER_BAD, fd, "cannot open the spool: %s",
		   fd == -ELOOP			    ? "it is a symbolic link"
		   : fd == -EISDIR || fd == -ENODEV ? "it is no regular file"
						    : strerror(-fd));
}

bool pfw_recover_is_dead(const char *spool_path)
{
	struct pfw_spool_image image;
	char why[PFW_SPOOL_WHY_BYTES];
	struct stat st;
	int fd = pfw_spool_image_open(spool_path, false, &st);
	bool dead;

	if (fd < 0)
		return false;
	dead = st.st_uid == geteuid() && !pfw_spool_image_header(&image, fd, why) &&
	       pfw_spool_is_of_here(image.header, why, sizeof(why)) &&
	       image.header->pid_namespace && image.header->pid_namespace == pfw_proc_namespace() &&
	       !pfw_spool_process_lives(fd, image.header);
	pfw_spool_image_release(&image);
	close(fd);
	return dead;
}

int pfw_recover_spool(const char *spool_path, const char *place, struct pfw_recovery *result)
{
	struct adoption adoption = {
		.spool_path = spool_path, .place = place, .result = result, .trace_fd = -1
	};
	struct stat st;
	int error, fd;

	memset(result, 0, sizeof(*result));
	fd = open_spool(spool_path, &st, result);
	if (fd < 0)
		return result->status == PFW_RECOVER_NOTHING ? 0 : fd;
	adoption.user = st.st_uid;
	result->taken = flock(fd, LOCK_EX | LOCK_NB) < 0;
	if (result->taken)
		error = say(result, PFW_RECOVER_LIVE, 0, "another pfw is adopting it");
	else if (!fstat(fd, &st) && !st.st_nlink)
		error = say(result, PFW_RECOVER_NOTHING, 0, "it is gone: adopted by another");
	else
		error = recover_as_owner(&adoption, fd);
	close(fd);
	return error;
}
