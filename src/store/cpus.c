/* cpus.c - how many CPUs this process may use; see cpus.h. */
#include "cpus.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned by_affinity(void)
{
	cpu_set_t set;

	/* Fails where there are more than 1024: then all that are there will do. */
	if (sched_getaffinity(0, sizeof(set), &set) < 0) {
		long online = sysconf(_SC_NPROCESSORS_ONLN);

		return online > 0 ? (unsigned)online : 1;
	}
	return (unsigned)CPU_COUNT(&set);
}

/* One line of a file. */
static bool read_line(const char *path, char *line, int size)
{
	FILE *file = fopen(path, "re");
	bool there;

	if (!file)
		return false;
	there = fgets(line, size, file) != NULL;
	fclose(file);
	if (there)
		line[strcspn(line, "\n")] = '\0';
	return there;
}

/* A quota is time a period; part of a CPU counts as one. */
static unsigned whole_cpus(double quota, double period, unsigned most)
{
	double cpus = quota > 0 && period > 0 ? quota / period : most;

	return cpus >= most ? most : cpus < 1 ? 1 : (unsigned)(cpus + 0.999);
}

/* cgroup version 2: the quota of this group and of each above it. */
static unsigned by_groups(const char *group, unsigned most)
{
	char path[4400], line[128], name[4096];

	snprintf(name, sizeof(name), "%s", group);
	for (;;) {
		double quota, period;
		char *slash;

		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", name);
		if (read_line(path, line, sizeof(line)) &&
		    sscanf(line, "%lf %lf", &quota, &period) == 2)
			most = whole_cpus(quota, period, most);
		slash = strrchr(name, '/');
		if (!slash)
			return most;
		*slash = '\0';
	}
}

/* Version 1, where a container sees its own group at the top. */
static unsigned by_old_group(unsigned most)
{
	char quota[64], period[64];
	double quota_us, period_us;

	if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof(quota)) ||
	    !read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof(period)) ||
	    sscanf(quota, "%lf", &quota_us) != 1 || sscanf(period, "%lf", &period_us) != 1)
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
