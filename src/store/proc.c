/* proc.c - what /proc says about this machine and its processes: see proc.h. */
#include "proc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "naming.h"

void pfw_proc_host(char *out, size_t size)
{
	struct utsname names;

	snprintf(out, size, "%s", uname(&names) ? "" : names.nodename);
}

/* The first `size` - 1 bytes of a file, NUL-terminated; "" where it cannot be read. */
static void read_text(const char *path, char *out, size_t size)
{
	FILE *file = fopen(path, "re");

	out[file ? fread(out, 1, size - 1, file) : 0] = '\0';
	if (file)
		fclose(file);
}

void pfw_proc_boot_id(char *out, size_t size)
{
	read_text("/proc/sys/kernel/random/boot_id", out, size);
	out[strcspn(out, "\n")] = '\0';
}

/*
 * A zombie with no other thread is dead.  (One whose other threads run on is a process whose main
 * thread has ended.)
 */
static bool is_dead_zombie(pid_t pid)
{
	char path[64], stat[1024], *rest;
	long threads;
	char state;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	read_text(path, stat, sizeof(stat));
	rest = strrchr(stat, ')');
	/* proc(5): state, 16 figures, number of threads. */
	return rest &&
	       sscanf(rest,
		      ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld",
		      &state, &threads) == 2 &&
	       (state == 'X' || (state == 'Z' && threads <= 1));
}

bool pfw_proc_alive(pid_t pid, uint64_t start_time)
{
	struct pfw_process process;

	return !pfw_process_read(&process, pid) &&
	       (!start_time || process.start_time == start_time) && !is_dead_zombie(pid);
}

uint64_t pfw_proc_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

/* The last figure of NSpid in /proc/PID/status: the pid in the innermost namespace. */
static pid_t innermost_pid(pid_t pid)
{
	char path[64], status[4096], *line, *last;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	read_text(path, status, sizeof(status));
	line = strstr(status, "\nNSpid:");
	if (!line)
		return pid;
	line++;
	line[strcspn(line, "\n")] = '\0';
	last = strrchr(line, '\t');
	return last ? atoi(last + 1) : pid;
}

/* Of two containers' first processes, begun in the same tick, only the namespace tells. */
static bool is_in_namespace(pid_t pid, uint64_t pid_namespace)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return !pid_namespace || stat(path, &st) || st.st_ino == pid_namespace;
}

bool pfw_proc_alive_inside(pid_t pid, uint64_t start_time, uint64_t pid_namespace)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir))) {
		pid_t here = atoi(entry->d_name);

		found = here > 0 && here != pid && pfw_proc_alive(here, start_time) &&
			innermost_pid(here) == pid && is_in_namespace(here, pid_namespace);
	}
	if (dir)
		closedir(dir);
	return found;
}
