/* common/base/available.c - memory that is available; see available.h. */
#include "common/base/available.h"

#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"

#define GROUPS "/sys/fs/cgroup"
#define FILE_BYTES 1024u /* of a path, or of what is read */

/* The number after a word that begins a line; 0 = no such line. */
static uint64_t number_of(const char *text, const char *word)
{
	uint64_t value = 0;

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (strncmp(text, word, strlen(word)) != 0)
			continue;
		text += strlen(word);
		pfw_text_read_u64(text + strspn(text, " "), &value);
		return value;
	}
	return 0;
}

/* The number in a file of a group; UINT64_MAX = none (the file says "max", or is not there). */
static uint64_t number_in(const char *group, const char *file)
{
	char path[FILE_BYTES], number[32];
	uint64_t value = UINT64_MAX;
	struct pfw_text text;

	pfw_text_init(&text, path, sizeof(path));
	PFW_TEXT_ADD(&text, GROUPS, group, file);
	if (pfw_os_read_file(path, number, sizeof(number)) > 0 && number[0] >= '0' &&
	    number[0] <= '9')
		pfw_text_read_u64(number, &value);
	return value;
}

/* Cached files that are not in use are freed when memory is short.  Version 1 counts the groups
 * below only in the total. */
static uint64_t unused_in(const char *group)
{
	char path[FILE_BYTES], stat[2 * FILE_BYTES];
	struct pfw_text text;

	pfw_text_init(&text, path, sizeof(path));
	PFW_TEXT_ADD(&text, GROUPS, group, "/memory.stat");
	if (pfw_os_read_file(path, stat, sizeof(stat)) <= 0)
		return 0;
	return number_of(stat, "total_inactive_file ") ?: number_of(stat, "inactive_file ");
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t room_of(const char *group, const char *most_file, const char *used_file)
{
	uint64_t most = number_in(group, most_file), used;

	if (most == UINT64_MAX)
		return UINT64_MAX;
	used = number_in(group, used_file);
	used -= least(used, unused_in(group));
	return used < most ? most - used : 0;
}

/* A version of cgroups: where its groups are, and the files of a group. */
struct version {
	const char *line; /* before the path of the group in /proc/self/cgroup */
	const char *root, *most, *used;
};

static const struct version versions[] = {
	{ "0::/", "", "/memory.max", "/memory.current" },
	{ ":memory:/", "/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes" },
};

/* Of the group and all its parents, the root too: a container of version 1 sees its own group there, though
 * its line says another path. */
static uint64_t room_of_groups(const struct version *version, const char *groups)
{
	const char *line = strstr(groups, version->line);
	char group[FILE_BYTES], *slash;
	uint64_t room = UINT64_MAX;
	struct pfw_text text;

	pfw_text_init(&text, group, sizeof(group));
	pfw_text_add(&text, version->root);
	if (line) {
		line += strlen(version->line) - 1;
		pfw_text_add_bytes(&text, line, strcspn(line, "\n"));
	}
	do {
		room = least(room, room_of(group, version->most, version->used));
		slash = strrchr(group + strlen(version->root), '/');
		if (slash)
			*slash = '\0';
	} while (slash);
	return room;
}

uint64_t pfw_available(uint64_t unknown)
{
	char text[FILE_BYTES];
	uint64_t room;

	if (pfw_os_read_file("/proc/meminfo", text, sizeof(text)) <= 0)
		return unknown;
	room = number_of(text, "MemAvailable:") * 1024;
	if (pfw_os_read_file("/proc/self/cgroup", text, sizeof(text)) <= 0)
		text[0] = '\0';
	for (unsigned i = 0; i < PFW_ARRAY_LEN(versions); i++)
		room = least(room, room_of_groups(&versions[i], text));
	return room;
}
