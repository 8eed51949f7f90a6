/* common/settings/process.h - identity of processes: pid and start time. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* From /proc/PID/stat. */
struct pfw_process {
	pid_t pid, ppid, session;
	uint64_t start_time; /* clock ticks since boot; unique with pid and boot id; 0 = unknown */
};

/* Fill *process from /proc/<pid>/stat; 0 or -errno.  Thread: any.  Signal: safe. */
int pfw_process_read(struct pfw_process *process, pid_t pid);

/* The calling process: pid from getpid(), the rest from /proc/self, since /proc may be of another
 * pid namespace, with another process under that pid.  Without a /proc, or a free descriptor to
 * read it, the start is unknown.  Thread: any.  Signal: safe. */
void pfw_process_self(struct pfw_process *process);

/* The number in the n-th word (from 0) of text; 0 if there is none.  Thread: any.  Signal: safe. */
uint64_t pfw_process_word(const char *text, int n);

/* CLOCK_BOOTTIME in ns: the clock of start times. */
uint64_t pfw_process_now(void);

/* Update *process, copied from the parent, in a forked child that started between after_ns and
 * before_ns.  If both are in one clock tick, that is the start time; else /proc is read. */
void pfw_process_forked(struct pfw_process *process, uint64_t after_ns, uint64_t before_ns);
