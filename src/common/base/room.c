/* common/base/room.c - reads what memory is available: see room.h. */
#include "common/base/room.h"

#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"

#define GROUPS "/sys/fs/cgroup"
#define FILE_BYTES 1024u /* of a path, or of what is read */

/* The number behind a word that begins a line; 0 = there is none. */
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

/* What files are in a cache, and not in use, is given back when memory is short. */
static uint64_t unused_in(const char *group)
{
	char path[FILE_BYTES], stat[2 * FILE_BYTES];
	struct pfw_text text;

	pfw_text_init(&text, path, sizeof(path));
	PFW_TEXT_ADD(&text, GROUPS, group, "/memory.stat");
	return pfw_os_read_file(path, stat, sizeof(stat)) > 0 ? number_of(stat, "inactive_file")
							      : 0;
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

/* Of the group and all its parents. */
static uint64_t room_of_groups(void)
{
	char text[FILE_BYTES], *group, *slash;
	uint64_t room =
		room_of("", "/memory/memory.limit_in_bytes", "/memory/memory.usage_in_bytes");

	pfw_os_read_file("/proc/self/cgroup", text, sizeof(text));
	group = strstr(text, "0::/");
	if (!group)
		return room;
	group += strlen("0::");
	group[strcspn(group, "\n")] = '\0';
	do {
		slash = strrchr(group, '/');
		if (slash && !slash[1])
			*slash = '\0';
		room = least(room, room_of(group, "/memory.max", "/memory.current"));
		slash = strrchr(group, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
	return room;
}

uint64_t pfw_room(void)
{
	char text[FILE_BYTES];
	uint64_t room;

	if (pfw_os_read_file("/proc/meminfo", text, sizeof(text)) <= 0)
		return 0;
	room = number_of(text, "MemAvailable:") * 1024;
	return least(room, room_of_groups());
}
