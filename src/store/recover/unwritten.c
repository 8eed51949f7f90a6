/* store/recover/unwritten.c - events recorded but not written yet: see unwritten.h. */
#include "store/recover/unwritten.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/read/input.h"
#include "store/read/scan.h"
#include "store/recover/image.h"
#include "store/recover/lines.h"
#include "store/recover/owner.h"
#include "store/recover/recover.h"
#include "store/sys/open.h"
#include "store/traces/paths.h"

/* a trace is created once; if it changes more often, it is not the recorder's */
#define TRIES_MAX 10

struct pfw_unwritten {
	struct pfw_spool_image image;
	struct pfw_spool_lines lines;
	int spool_fd;
	int fd; /* the trace; -1: not created yet */
	uint64_t offset;
	bool runs;
	char spool[PATH_MAX];
	/* The current piece of text. */
	const char *text;
	size_t bytes;
};

/* ---- the spool ---- */

/* The spool that the first line names. 1: it names one; 0: there is no first line yet; -ENOENT: it
 * says that there is none, or the trace is not the recorder's. */
static int named_spool(const char *trace, char *out)
{
	struct pfw_claim claim;

	/* Not there yet, or reading it will report the error. */
	if (pfw_claim_read(&claim, trace) || (!claim.ours && !claim.any))
		return 0;
	if (!claim.ours || claim.no_spool)
		return -ENOENT;
	memcpy(out, claim.spool, PATH_MAX);
	return *out != '\0';
}

/* Anybody can put a file into /dev/shm, so a spool must have the trace's owner. */
static int check_owner(const struct pfw_unwritten *live, char *why)
{
	struct stat spool, trace;
	uid_t wanted = geteuid();

	if (fstat(live->spool_fd, &spool) < 0)
		return -errno;
	if (live->fd >= 0 && !fstat(live->fd, &trace))
		wanted = trace.st_uid;
	else if (!wanted)
		return 0; /* we are root, and there is no trace yet */
	if (spool.st_uid == wanted)
		return 0;
	snprintf(why, PFW_LIVE_WHY_BYTES,
		 "what is not written yet is user %u's, the trace is user %u's: not believed",
		 spool.st_uid, wanted);
	return -EPERM;
}

/* 0 if spool and trace are of one process and one file; otherwise -ENOENT. */
static int match(struct pfw_unwritten *live)
{
	const struct pfw_spool_header *header = live->image.header;
	struct stat st, named;

	if (live->fd < 0)
		return 0;
	if (fstat(live->fd, &st) < 0)
		return -errno;
	if (!st.st_size) /* just created: it contains nothing of another process */
		return 0;
	if (!atomic_load_explicit(&header->file_made, memory_order_relaxed) ||
	    pfw_owner_of(live->fd, header, NULL) == PFW_TRACE_OTHER)
		return -ENOENT; /* its own trace will get another name */
	/* The trace was moved across file systems and continues in another file.  (If the path does
	 * not exist here, the process sees other mounts.) */
	if (!stat(pfw_spool_trace_path(live->image.header), &named) &&
	    (named.st_dev != st.st_dev || named.st_ino != st.st_ino))
		return -ENOENT;
	return (uint64_t)st.st_size < live->image.slot.offset ? -ENOENT : 0;
}

/* Read an opened spool. -ENOENT: it is not this trace's, or has nothing for it; -EAGAIN: the trace
 * was created meanwhile. */
static int read_spool(struct pfw_unwritten *live, const char *trace, char *why)
{
	const struct pfw_spool_header *header;
	int error = pfw_spool_image_header(&live->image, live->spool_fd, why);

	if (error)
		return error == -ENODATA ? -ENOENT : error;
	header = live->image.header;
	if (!pfw_spool_is_of_here(header, why, PFW_LIVE_WHY_BYTES))
		return -EREMOTE;
	live->runs = pfw_spool_process_lives(live->spool_fd, header);
	if (live->runs && header->keep_bytes) /* what it keeps is in no trace unless it is dumped */
		return -ENOENT;
	error = pfw_spool_image_live(&live->image, why);
	/* The header is now of the slot's moment: one that stopped earlier has written `end`. */
	if (!error && atomic_load_explicit(&header->state, memory_order_relaxed) == PFW_SPOOL_DONE)
		error = -ENOENT;
	error = error ?: match(live);
	if (error)
		return error;
	if (live->fd >= 0)
		live->offset = live->image.slot.offset;
	else if (!access(trace, F_OK))
		return -EAGAIN;
	return live->offset || pfw_spool_has_lines(&live->image) ? 0 : -ENOENT;
}

static int open_spool(struct pfw_unwritten *live, const char *trace, const char *spool, char *why)
{
	int error;

	snprintf(live->spool, sizeof(live->spool), "%s", spool);
	live->fd = pfw_open_file(trace, PFW_OPEN_LINK, NULL);
	if (live->fd < 0)
		live->fd = -1;
	live->spool_fd = pfw_open_file(spool, 0, NULL);
	if (live->spool_fd == -EACCES) {
		snprintf(why, PFW_LIVE_WHY_BYTES,
			 "what is not written yet (%.150s) is another user's", spool);
		return -EPERM;
	}
	if (live->spool_fd < 0) /* a link, a directory or a device is none */
		return live->spool_fd == -ENOMEM ? -ENOMEM : -ENOENT;
	error = check_owner(live, why) ?: read_spool(live, trace, why);
	live->lines = (struct pfw_spool_lines){ .spool_path = live->spool,
						.first_line = !live->offset,
						.live = live->runs };
	return error ?: pfw_spool_lines_begin(&live->lines, &live->image);
}

/* ---- opening and closing ---- */

struct search {
	struct pfw_unwritten **out;
	const char *trace;
	char *why;
	int error; /* -ENOENT until a better reason is known */
};

static int open_one(struct search *search, const char *spool, char *why)
{
	struct pfw_unwritten *live = calloc(1, sizeof(*live));
	int error;

	if (!live)
		return -ENOMEM;
	error = open_spool(live, search->trace, spool, why);
	if (error)
		pfw_unwritten_close(live);
	else
		*search->out = live;
	return error;
}

static int try_spool(const char *spool, void *user)
{
	struct search *search = user;
	char why[PFW_LIVE_WHY_BYTES] = "";
	int error = -EAGAIN;

	for (int tries = 0; error == -EAGAIN && tries < TRIES_MAX; tries++)
		error = open_one(search, spool, why);
	if (!error)
		return 1;
	if (error != -ENOENT) {
		search->error = error;
		snprintf(search->why, PFW_LIVE_WHY_BYTES, "%s", why);
	}
	return error == -ENOMEM ? error : 0;
}

int pfw_unwritten_open(struct pfw_unwritten **out, const char *trace,
		       const struct pfw_spool_places *dirs, char why[PFW_LIVE_WHY_BYTES])
{
	struct search search = { .out = out, .trace = trace, .why = why, .error = -ENOENT };
	char spool[PATH_MAX];
	int found;

	*why = '\0';
	if (!strcmp(trace, "-"))
		return -ENOENT;
	found = named_spool(trace, spool);
	if (found < 0)
		return found;
	found = found ? try_spool(spool, &search)
		      : pfw_recover_find_in(dirs, trace, NULL, try_spool, &search);
	return found == 1 ? 0 : found ? found : search.error;
}

void pfw_unwritten_close(struct pfw_unwritten *live)
{
	if (live->lines.reading)
		pfw_spool_lines_end(&live->lines);
	pfw_spool_image_release(&live->image);
	if (live->spool_fd >= 0)
		close(live->spool_fd);
	if (live->fd >= 0)
		close(live->fd);
	free(live);
}

uint64_t pfw_unwritten_offset(const struct pfw_unwritten *live)
{
	return live->offset;
}

bool pfw_unwritten_runs(const struct pfw_unwritten *live)
{
	return live->runs;
}

pid_t pfw_unwritten_pid(const struct pfw_unwritten *live)
{
	return live->image.header->pid;
}

const char *pfw_unwritten_spool(const struct pfw_unwritten *live)
{
	return live->spool;
}

const struct pfw_spool_header *pfw_unwritten_header(const struct pfw_unwritten *live)
{
	return live->image.header;
}

/* ---- reading ---- */

size_t pfw_unwritten_next(struct pfw_unwritten *live, const char **text)
{
	return pfw_spool_lines_next(&live->lines, text);
}

ssize_t pfw_unwritten_read(struct pfw_unwritten *live, void *buf, size_t size)
{
	if (!live->bytes)
		live->bytes = pfw_unwritten_next(live, &live->text);
	if (size > live->bytes)
		size = live->bytes;
	memcpy(buf, live->text, size);
	live->text += size;
	live->bytes -= size;
	return (ssize_t)size;
}

static ssize_t read_lines(void *user, void *buf, size_t size)
{
	return pfw_unwritten_read(user, buf, size);
}

int pfw_unwritten_scan(struct pfw_scan *scan, const char *path, struct pfw_unwritten *live)
{
	struct pfw_input_tail tail = { .read = read_lines, .user = live };

	if (!live)
		return pfw_scan_open(scan, path);
	tail.fd = live->fd;
	tail.offset = live->offset;
	return pfw_scan_open_tail(scan, path, &tail);
}

/* ---- traces not created yet ---- */

static int add_unbegun(const char *spool, void *user)
{
	struct pfw_paths *paths = user;
	struct pfw_spool_image image;
	char why[PFW_SPOOL_WHY_BYTES];
	struct stat st;
	int error = 0, fd = pfw_spool_image_open(spool, false, &st);

	if (fd < 0)
		return 0;
	if (!pfw_spool_image_header(&image, fd, why) &&
	    !(image.header->keep_bytes && pfw_spool_process_lives(fd, image.header)) &&
	    !pfw_spool_image_live(&image, why) && pfw_spool_has_lines(&image) &&
	    access(pfw_spool_trace_path(image.header), F_OK) &&
	    atomic_load_explicit(&image.header->state, memory_order_relaxed) != PFW_SPOOL_DONE)
		error = pfw_paths_add_path(paths, pfw_spool_trace_path(image.header));
	pfw_spool_image_release(&image);
	close(fd);
	return error;
}

int pfw_unwritten_paths(struct pfw_paths *paths, const char *argument, const char *const *dirs)
{
	char path[PATH_MAX + 2];
	struct stat st;
	bool there = stat(argument, &st) == 0;

	if (strlen(argument) >= PATH_MAX || (there && !S_ISDIR(st.st_mode)))
		return 0;
	snprintf(path, sizeof(path), "%s%s", argument, there ? "/" : "");
	return pfw_recover_find(dirs, path, NULL, add_unbegun, paths);
}
