/* fuzz_snapshot.c - any bytes as a snapshot of memory: a trace of whole lines, or a reason. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"
#include "store/line/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_trace(FILE *trace, size_t size)
{
	struct pfw_entry entry;
	char *line = NULL;
	size_t room = 0, lines = 0;
	uint64_t total = 0;
	ssize_t bytes;
	FILE *in;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(trace));
	in = fopen(path, "r");
	assert(in);
	while ((bytes = getline(&line, &room, in)) > 0) {
		assert(line[bytes - 1] == '\n');
		pfw_entry_parse(&entry, line, (size_t)bytes - 1);
		assert(entry.kind == PFW_ENTRY_EVENT && !pfw_entry_missing(&entry) && !entry.wrong);
		lines++;
		total += (uint64_t)bytes;
	}
	assert(total <= 4096 + 256 * (uint64_t)size); /* as memory.h says */
	/* A line for each event, and one for each owner, both of which take their bytes. */
	assert(lines >= 2 && lines <= 2 + 2 * size);
	free(line);
	fclose(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const _Atomic bool never;
	static int fd = -1;
	FILE *trace = NULL;
	char path[64], why[256] = "";

	if (fd < 0)
		fd = memfd_create("snapshot", MFD_CLOEXEC);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (snapshot_open(&trace, path, &never, why, sizeof(why))) {
		assert(!trace && *why && !strchr(why, '\n'));
		return 0;
	}
	check_trace(trace, size);
	fclose(trace);
	return 0;
}
