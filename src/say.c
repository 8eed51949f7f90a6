/* say.c - the recorder's lines on standard error. */
#include "say.h"

#include <limits.h>

#include "os.h"
#include "text.h"

static bool is_quiet;

void pfw_say_quiet(bool quiet)
{
	is_quiet = quiet;
}

/*
 * The process's standard error, for a thread with a table of its own, in which there is none: the
 * same open file where the kernel (5.6) and a container's rules let us, else what it leads to,
 * opened anew (which goes for all but sockets).  Where the process has none either, nothing is
 * opened.
 */
static int borrow_stderr(void)
{
	static const char path[] = "/proc/self/fd/2";
	char target[8];
	int process, fd = -EBADF;

	if (pfw_os_readlink(path, target, sizeof(target)) < 0)
		return -EBADF;
	process = (int)pfw_syscall6(SYS_pidfd_open, pfw_os_getpid(), 0, 0, 0, 0, 0);
	if (process >= 0) {
		fd = (int)pfw_syscall6(SYS_pidfd_getfd, process, 2, 0, 0, 0, 0);
		pfw_os_close(process);
	}
	return fd >= 0 ? fd : pfw_os_open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK, 0);
}

void pfw_say(const char *line)
{
	char buf[PIPE_BUF]; /* one that a pipe takes whole or not at all */
	int32_t tid = pfw_os_gettid();
	struct pfw_text text;
	int fd;

	if (is_quiet)
		return;
	pfw_text_init(&text, buf, sizeof(buf) - 1);
	pfw_text_add(&text, "pfw: ");
	pfw_text_add(&text, line);
	*text.at++ = '\n';
	/* In a table of our own 2 is something else. */
	if (pfw_os_own_table != tid && pfw_os_own_table_guest != tid &&
	    pfw_os_say(2, buf, (size_t)(text.at - buf)) != -EBADF)
		return;
	fd = borrow_stderr();
	if (fd < 0)
		return;
	pfw_os_say(fd, buf, (size_t)(text.at - buf));
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
