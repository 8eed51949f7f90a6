/* trace_file.c - the output file: made once, never shared, never overwritten. */
#include "trace_file.h"

#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "json.h"
#include "naming.h"
#include "os.h"
#include "text.h"

#define NUMBERS_MAX 10000u

/* Make the directories above a file; what is there already is fine.  0, or why the last is not. */
static int make_parents(char *path)
{
	int error = 0;

	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		error = pfw_os_mkdir(path, 0777);
		*slash = '/';
	}
	return error == -EEXIST ? 0 : error;
}

static int identify(int fd, dev_t *dev, ino_t *ino)
{
	struct stat st;
	int error = pfw_os_fstat(fd, &st);

	if (error)
		return error;
	*dev = st.st_dev;
	*ino = st.st_ino;
	return 0;
}

#define TRIES 100 /* of a call that a signal interrupts, on a network file system */

static int create_here(const char *path)
{
	int fd = -EINTR;

	for (int i = 0; i < TRIES && fd == -EINTR; i++)
		fd = pfw_os_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	return fd;
}

int pfw_trace_create(char *path, dev_t *dev, ino_t *ino)
{
	char numbered[PFW_PATH_MAX], *name = path;
	int fd = create_here(path), error;

	if (fd == -ENOENT) {
		error = make_parents(path);
		fd = create_here(path);
		if (fd == -ENOENT && error)
			return error;
	}
	for (unsigned n = 2; fd == -EEXIST && n < NUMBERS_MAX; n++) {
		error = pfw_name_numbered(numbered, path, n);
		if (error)
			return error;
		name = numbered;
		fd = create_here(name);
	}
	if (fd < 0)
		return fd;
	/* Who adopts a dead process's trace takes this lock: it dies with us, also by SIGKILL. */
	pfw_os_flock(fd, LOCK_EX | LOCK_NB);
	error = identify(fd, dev, ino);
	if (error) {
		pfw_os_unlink(name); /* made just now, by us, and empty */
		pfw_os_close(fd);
		return error;
	}
	if (name != path)
		memcpy(path, name, strlen(name) + 1);
	return fd;
}

int pfw_trace_reopen(const char *path, dev_t dev, ino_t ino, bool ours)
{
	int fd = -EINTR;
	dev_t dev_now = 0;
	ino_t ino_now = 0;
	int error;

	for (int i = 0; i < TRIES && fd == -EINTR; i++)
		fd = pfw_os_open(path, O_WRONLY | O_NOFOLLOW, 0);
	if (fd == -ENOENT || fd == -ELOOP) /* gone, or a symbolic link in its place */
		return -ESTALE;
	if (fd < 0)
		return fd;
	error = identify(fd, &dev_now, &ino_now);
	if (!error && (dev_now != dev || ino_now != ino))
		error = -ESTALE;
	if (error) {
		pfw_os_close(fd);
		return error;
	}
	if (pfw_os_flock(fd, LOCK_EX | LOCK_NB) == -EWOULDBLOCK && !ours) {
		pfw_os_close(fd);
		return -EBUSY;
	}
	return fd;
}

int pfw_trace_write(int fd, const void *data, size_t bytes, uint64_t offset)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	const char *at = data;
	int tries = 0;

	/* Beyond the limit a write would raise SIGXFSZ, in the end in the traced program. */
	pfw_syscall6(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0);
	if (limit.rlim_cur != RLIM_INFINITY && offset + bytes > limit.rlim_cur)
		return -EFBIG;
	while (bytes) {
		ssize_t n = pfw_os_pwrite(fd, at, bytes, offset);

		if (n == -EINTR && tries++ < TRIES)
			continue;
		if (n <= 0)
			return n ? (int)n : -EIO;
		at += n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Rename without replacing, also where the file system has no such call. */
static int move_to(const char *from, const char *to)
{
	int error = pfw_os_rename_noreplace(from, to);

	if (error != -EINVAL && error != -ENOSYS)
		return error;
	error = pfw_os_link(from, to);
	return error ? error : pfw_os_unlink(from);
}

int pfw_trace_move(char *from, const char *to)
{
	char name[PFW_PATH_MAX];
	int error;

	memcpy(name, to, strlen(to) + 1);
	error = move_to(from, name);
	if (error == -ENOENT) {
		make_parents(name);
		error = move_to(from, name);
	}
	for (unsigned n = 2; error == -EEXIST && n < NUMBERS_MAX; n++) {
		error = pfw_name_numbered(name, to, n);
		if (!error)
			error = move_to(from, name);
	}
	if (!error)
		memcpy(from, name, strlen(name) + 1);
	return error;
}

/* What a user can do about it. */
static const char *remedy(int error, int made)
{
	switch (-error) {
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return "events wait in memory until there is room, then are counted as lost";
	case ESTALE:
		return "recording stops: the trace was moved, removed or adopted by pfw repair";
	case EBUSY:
		return "recording stops: another process holds the trace's lock";
	default:
		return made ? "events wait in memory, then are counted as lost"
			    : "nothing is recorded: set DFTRACER_LOG_FILE (or pfw run -o) to a "
			      "place you can write to";
	}
}

void pfw_trace_say_error(void (*say)(const char *line), const char *path, int error, int made)
{
	const char *name = pfw_errno_name(-error);
	char line[PFW_PATH_MAX + 256];
	struct pfw_text text;

	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, made ? "cannot write the trace " : "cannot create the trace ");
	pfw_text_add(&text, path);
	pfw_text_add(&text, ": ");
	pfw_text_add(&text, name ? name : "unknown error");
	pfw_text_add(&text, "; ");
	pfw_text_add(&text, remedy(error, made));
	say(line);
}
