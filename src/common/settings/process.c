/* common/settings/process.c - identity of processes; see process.h. */
#include "common/settings/process.h"

#include <errno.h>
#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"

uint64_t pfw_process_word(const char *text, int n)
{
	uint64_t value = 0;

	for (; n > 0; n--) {
		text += strcspn(text, " ");
		text += strspn(text, " ");
	}
	return pfw_text_read_u64(text, &value) ? value : 0;
}

static int read_stat(struct pfw_process *process, const char *path)
{
	char stat[1024];
	const char *rest;
	ssize_t bytes = pfw_os_read_file(path, stat, sizeof(stat));

	if (bytes < 0)
		return (int)bytes;
	/* The name in parentheses may contain parentheses and spaces: skip to the last one. */
	rest = strrchr(stat, ')');
	if (!rest || strncmp(rest, ") ", 2) != 0)
		return -EINVAL;
	rest += 2;
	process->ppid = (pid_t)pfw_process_word(rest, 1);
	process->session = (pid_t)pfw_process_word(rest, 3);
	process->start_time = pfw_process_word(rest, 19);
	return 0;
}

int pfw_process_read(struct pfw_process *process, pid_t pid)
{
	char path[32];
	struct pfw_text text;

	pfw_text_init(&text, path, sizeof(path));
	pfw_text_add(&text, "/proc/");
	pfw_text_add_u64(&text, (uint64_t)pid, 1);
	pfw_text_add(&text, "/stat");
	process->pid = pid;
	return read_stat(process, path);
}

void pfw_process_self(struct pfw_process *process)
{
	if (read_stat(process, "/proc/self/stat"))
		*process = (struct pfw_process){ .ppid = pfw_os_getppid() };
	process->pid = pfw_os_getpid();
}

uint64_t pfw_process_now(void)
{
	struct timespec ts = { 0, 0 };

	/* Not libc's function: another preload may replace it. */
	pfw_syscall6(SYS_clock_gettime, CLOCK_BOOTTIME, (long)&ts, 0, 0, 0, 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#define TICK_NS 10000000u /* of /proc: USER_HZ is 100 on all our machines */

void pfw_process_forked(struct pfw_process *process, uint64_t after_ns, uint64_t before_ns)
{
	/* Without a /proc the start time stays unknown, as in a program that the child runs. */
	if (!process->start_time || !after_ns || after_ns / TICK_NS != before_ns / TICK_NS)
		return pfw_process_self(process);
	process->pid = pfw_os_getpid();
	process->ppid = pfw_os_getppid();
	process->session = (pid_t)pfw_syscall6(SYS_getsid, 0, 0, 0, 0, 0, 0);
	process->start_time = after_ns / TICK_NS;
}
