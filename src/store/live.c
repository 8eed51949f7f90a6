/* live.c - what a process has recorded and not yet written: see live.h. */
#include "live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input.h"
#include "paths.h"
#include "recover.h"
#include "scan.h"
#include "spool_home.h"
#include "spool_image.h"
#include "spool_lines.h"
#include "spool_live.h"
#include "trace_owner.h"

#define TRIES_MAX 10 /* a trace is begun once; more often is no trace of ours */

struct pfw_live {
	struct pfw_spool_image image;
	struct pfw_spool_lines lines;
	int spool_fd;
	int fd; /* the trace; -1: there is none */
	uint64_t offset;
	bool runs;
	char spool[PATH_MAX];
	/* The piece of text in hand. */
	const char *text;
	size_t bytes;
};

/* ---- the spool ---- */

/* The spool that the first line names.  1: it does; 0: there is no such line yet; -ENOENT: it says that
 * there is none, or the trace is none of ours. */
static int named_spool(const char *trace, char *out)
{
	struct pfw_value value;
	struct pfw_scan scan;
	int found = 0;

	if (pfw_scan_open(&scan, trace))
		return 0; /* not there yet, or whoever reads it will say why it cannot be */
	if (pfw_scan_next(&scan) == PFW_SCAN_LINE && !scan.unterminated) {
		bool told = pfw_object_find(&scan.entry.args, "spool", &value);

		if (!pfw_scan_is(&scan, "process") || (told && value.type == PFW_VALUE_NULL))
			found = -ENOENT;
		else if (told && value.type == PFW_VALUE_STRING &&
			 pfw_slice_decode(&value.text, out, PATH_MAX) && *out == '/')
			found = 1;
	}
	pfw_scan_close(&scan);
	return found;
}

/* A file that anybody may put into /dev/shm is believed only where it is the trace's owner's. */
static int check_owner(const struct pfw_live *live, char *why)
{
	struct stat spool, trace;
	uid_t wanted = geteuid();

	if (fstat(live->spool_fd, &spool) < 0)
		return -errno;
	if (!S_ISREG(spool.st_mode))
		return -ENOENT;
	if (live->fd >= 0 && !fstat(live->fd, &trace))
		wanted = trace.st_uid;
	else if (!wanted)
		return 0; /* root, and no trace yet */
	if (spool.st_uid == wanted)
		return 0;
	snprintf(why, PFW_LIVE_WHY_BYTES,
		 "what is not written yet is user %u's, the trace is user %u's: not believed",
		 spool.st_uid, wanted);
	return -EPERM;
}

/* 0 where spool and trace are of one process and one file; -ENOENT where they are not. */
static int match(struct pfw_live *live)
{
	const struct pfw_spool_header *header = live->image.header;
	struct stat st, named;

	if (live->fd < 0)
		return 0;
	if (fstat(live->fd, &st) < 0)
		return -errno;
	if (!st.st_size) /* begun just now: nothing in it is another's */
		return 0;
	if (!atomic_load_explicit(&header->file_made, memory_order_relaxed) ||
	    pfw_trace_owner(live->fd, header) == PFW_TRACE_OTHER)
		return -ENOENT; /* its own trace will have another name */
	/* Renamed across file systems: it goes on in another file.  (Where its path leads nowhere, it
	 * sees other mounts than we do.) */
	if (!stat(pfw_spool_image_trace(&live->image), &named) &&
	    (named.st_dev != st.st_dev || named.st_ino != st.st_ino))
		return -ENOENT;
	return (uint64_t)st.st_size < live->image.slot.offset ? -ENOENT : 0;
}

/* Read a spool that was opened.  -ENOENT: it is not this trace's, or has nothing for it; -EAGAIN: the
 * trace was begun meanwhile. */
static int read_spool(struct pfw_live *live, const char *trace, char *why)
{
	const struct pfw_spool_header *header;
	int error = pfw_spool_image_header(&live->image, live->spool_fd, why);

	if (error)
		return error == -ENODATA ? -ENOENT : error;
	header = live->image.header;
	if (!pfw_spool_is_of_here(header, why, PFW_LIVE_WHY_BYTES))
		return -EREMOTE;
	live->runs = pfw_spool_process_lives(live->spool_fd, header);
	error = pfw_spool_image_live(&live->image, why);
	/* The header is now of the slot's moment: who stopped before it has written an end. */
	if (!error && atomic_load_explicit(&header->state, memory_order_relaxed) == PFW_SPOOL_DONE)
		error = -ENOENT;
	if (!error)
		error = match(live);
	if (error)
		return error;
	if (live->fd >= 0)
		live->offset = live->image.slot.offset;
	else if (!access(trace, F_OK))
		return -EAGAIN;
	return live->offset || pfw_spool_has_lines(&live->image) ? 0 : -ENOENT;
}

static int open_spool(struct pfw_live *live, const char *trace, const char *spool, char *why)
{
	int error;

	snprintf(live->spool, sizeof(live->spool), "%s", spool);
	live->fd = open(trace, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	live->spool_fd = open(spool, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (live->spool_fd < 0 && errno == EACCES)
		snprintf(why, PFW_LIVE_WHY_BYTES,
			 "what is not written yet (%.150s) is another user's", spool);
	if (live->spool_fd < 0)
		return errno == EACCES ? -EPERM : errno == ELOOP ? -ENOENT : -errno;
	error = check_owner(live, why);
	if (!error)
		error = read_spool(live, trace, why);
	live->lines = (struct pfw_spool_lines){ .spool_path = live->spool,
						.first_line = !live->offset,
						.live = live->runs };
	return error ? error : pfw_spool_lines_begin(&live->lines, &live->image);
}

/* ---- opening and closing ---- */

struct search {
	struct pfw_live **out;
	const char *trace;
	char *why;
	int error; /* -ENOENT until something better is known */
};

static int open_one(struct search *search, const char *spool, char *why)
{
	struct pfw_live *live = calloc(1, sizeof(*live));
	int error;

	if (!live)
		return -ENOMEM;
	error = open_spool(live, search->trace, spool, why);
	if (error)
		pfw_live_close(live);
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

int pfw_live_open(struct pfw_live **out, const char *trace, const struct pfw_spool_places *dirs,
		  char why[PFW_LIVE_WHY_BYTES])
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
		      : pfw_recover_find_in(dirs, trace, try_spool, &search);
	return found == 1 ? 0 : found ? found : search.error;
}

void pfw_live_close(struct pfw_live *live)
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

uint64_t pfw_live_offset(const struct pfw_live *live)
{
	return live->offset;
}

int pfw_live_fd(const struct pfw_live *live)
{
	return live->fd;
}

bool pfw_live_runs(const struct pfw_live *live)
{
	return live->runs;
}

pid_t pfw_live_pid(const struct pfw_live *live)
{
	return live->image.header->pid;
}

const char *pfw_live_spool(const struct pfw_live *live)
{
	return live->spool;
}

/* ---- reading ---- */

size_t pfw_live_next(struct pfw_live *live, const char **text)
{
	return pfw_spool_lines_next(&live->lines, text);
}

ssize_t pfw_live_read(struct pfw_live *live, void *buf, size_t size)
{
	if (!live->bytes)
		live->bytes = pfw_live_next(live, &live->text);
	if (size > live->bytes)
		size = live->bytes;
	memcpy(buf, live->text, size);
	live->text += size;
	live->bytes -= size;
	return (ssize_t)size;
}

static ssize_t read_lines(void *user, void *buf, size_t size)
{
	return pfw_live_read(user, buf, size);
}

int pfw_live_scan(struct pfw_scan *scan, const char *path, struct pfw_live *live)
{
	struct pfw_input_tail tail = { .read = read_lines, .user = live };

	if (!live)
		return pfw_scan_open(scan, path);
	tail.fd = live->fd;
	tail.offset = live->offset;
	return pfw_scan_open_tail(scan, path, &tail);
}

/* ---- what is not on disk yet ---- */

static int add_unbegun(const char *spool, void *user)
{
	struct pfw_paths *paths = user;
	struct pfw_spool_image image;
	char why[PFW_SPOOL_WHY_BYTES];
	int error = 0, fd = open(spool, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return 0;
	if (!pfw_spool_image_header(&image, fd, why) && !pfw_spool_image_live(&image, why) &&
	    pfw_spool_has_lines(&image) && access(pfw_spool_image_trace(&image), F_OK) &&
	    atomic_load_explicit(&image.header->state, memory_order_relaxed) != PFW_SPOOL_DONE)
		error = pfw_paths_add_path(paths, pfw_spool_image_trace(&image));
	pfw_spool_image_release(&image);
	close(fd);
	return error;
}

int pfw_live_paths(struct pfw_paths *paths, const char *argument, const char *const *dirs)
{
	char path[PATH_MAX + 2];
	struct stat st;
	bool there = stat(argument, &st) == 0;

	if (strlen(argument) >= PATH_MAX || (there && !S_ISDIR(st.st_mode)))
		return 0;
	snprintf(path, sizeof(path), "%s%s", argument, there ? "/" : "");
	return pfw_recover_find(dirs, path, NULL, add_unbegun, paths);
}
