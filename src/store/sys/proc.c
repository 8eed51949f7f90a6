/* store/sys/proc.c - the host, its processes and CPUs; see proc.h. */
#include "store/sys/proc.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/settings/process.h"

void pfw_proc_host(char *out, size_t size)
{
	struct utsname names;

	snprintf(out, size, "%s", uname(&names) ? "" : names.nodename);
}

/* Read the first `size` - 1 bytes of a file and append a NUL; "" if it cannot be read. */
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

/* A zombie without other threads is dead; with them, only its main thread has ended. */
static bool is_dead_zombie(pid_t pid)
{
	char path[64], stat[1024], *rest;
	long threads;
	char state;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	read_text(path, stat, sizeof(stat));
	rest = strrchr(stat, ')');
	/* proc(5): state, 16 numbers, number of threads */
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

/* The last number of NSpid in /proc/PID/status: the pid in the innermost namespace. */
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

/* The first processes of two containers may start in the same clock tick: only the namespace
 * differs. */
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

/* ---- CPUs ---- */

static unsigned by_affinity(void)
{
	cpu_set_t set;

	/* Fails on machines with more than 1024 CPUs: count all that are online. */
	if (sched_getaffinity(0, sizeof(set), &set) < 0) {
		long online = sysconf(_SC_NPROCESSORS_ONLN);

		return online > 0 ? (unsigned)online : 1;
	}
	return (unsigned)CPU_COUNT(&set);
}

/* CPUs of a quota, rounded up. */
static unsigned whole_cpus(double quota, double period, unsigned most)
{
	double cpus = quota > 0 && period > 0 ? quota / period : most;

	return cpus >= most ? most : cpus < 1 ? 1 : (unsigned)(cpus + 0.999);
}

/* cgroup v2: the quotas of this group and of all its parents. */
static unsigned by_groups(const char *group, unsigned most)
{
	char path[4400], line[128], name[4096];

	snprintf(name, sizeof(name), "%s", group);
	for (;;) {
		double quota, period;
		char *slash;

		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", name);
		read_text(path, line, sizeof(line));
		if (sscanf(line, "%lf %lf", &quota, &period) == 2)
			most = whole_cpus(quota, period, most);
		slash = strrchr(name, '/');
		if (!slash)
			return most;
		*slash = '\0';
	}
}

/* cgroup v1: a container sees its own group as the root. */
static unsigned by_old_group(unsigned most)
{
	char quota[64], period[64];
	double quota_us, period_us;

	read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof(quota));
	read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof(period));
	if (sscanf(quota, "%lf", &quota_us) != 1 || sscanf(period, "%lf", &period_us) != 1)
		return most;
	return whole_cpus(quota_us, period_us, most);
}

unsigned pfw_cpus(void)
{
	unsigned count = by_affinity();
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[4096];

	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::", 3) == 0)
			count = by_groups(line + 3, count);
	}
	if (file)
		fclose(file);
	count = by_old_group(count);
	return count ? count : 1;
}
