/* recorder/guest/say.c - the recorder's messages on standard error. */
#include "recorder/guest/say.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "recorder/guest/own_fds.h"

static bool is_quiet;

/* The thread whose messages go into `said`; 0 = none. */
static _Atomic int32_t sayer;
static struct pfw_text said;

void pfw_say_quiet(bool quiet)
{
	is_quiet = quiet;
}

void pfw_say_into(char *out, size_t size)
{
	if (out)
		pfw_text_init(&said, out, size);
	atomic_store(&sayer, out ? pfw_os_gettid() : 0);
}

/*
 * A descriptor of the process's standard error, for a thread with its own descriptor table.  If the
 * kernel (5.6) and the container allow pidfd_getfd(), it is the same open file; else the file is
 * opened anew, which works for all but sockets.  -errno if the process has no standard error.
 */
static int borrow_stderr(void)
{
	static const char path[] = "/proc/self/fd/2";
	char target[8];
	int fd;

	if (pfw_os_readlink(path, target, sizeof(target)) < 0)
		return -EBADF;
	fd = pfw_own_fds_borrow(2);
	return fd >= 0 ? fd : pfw_os_open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK, 0);
}

void pfw_say(const char *line)
{
	static const char before[] = "pfw: ", after[] = "\n";
	size_t room =
		PIPE_BUF - sizeof(before) - sizeof(after); /* a pipe takes this much at once */
	int32_t tid = pfw_os_gettid();
	const struct iovec parts[] = { { (void *)(uintptr_t)before, sizeof(before) - 1 },
				       { (void *)(uintptr_t)line, strnlen(line, room) },
				       { (void *)(uintptr_t)after, sizeof(after) - 1 } };
	int fd;

	if (is_quiet)
		return;
	if (atomic_load(&sayer) == tid) {
		PFW_TEXT_ADD(&said, line, after);
		return;
	}
	/* In our own descriptor table, 2 is another file. */
	if (pfw_os_own_table != tid && pfw_os_own_table_guest != tid &&
	    pfw_os_say(2, parts, PFW_ARRAY_LEN(parts)) != -EBADF)
		return;
	fd = borrow_stderr();
	if (fd < 0)
		return;
	pfw_os_say(fd, parts, PFW_ARRAY_LEN(parts));
	pfw_os_close(fd);
}

void pfw_say_number(const char *before, uint64_t number, const char *after)
{
	char buf[512];
	struct pfw_text text;

	pfw_text_init(&text, buf, sizeof(buf));
	pfw_text_add(&text, before);
	pfw_text_add_u64(&text, number, 1);
	pfw_text_add(&text, after);
	pfw_say(buf);
}
