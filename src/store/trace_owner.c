/* trace_owner.c - whether a trace is that of the process which a spool names. */
#include "trace_owner.h"

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include <zlib.h>

#include "json.h"
#include "spool.h"

#define FIRST_LINE_MAX 65536u /* the `process` line: a path and a command line, all escaped */

/* The beginning of a gzip file's text; 0 bytes where it is no gzip or too short to tell. */
static size_t inflate_head(unsigned char *file, size_t file_bytes, char *text, size_t size)
{
	z_stream stream = { .next_in = file,
			    .avail_in = (uInt)file_bytes,
			    .next_out = (unsigned char *)text,
			    .avail_out = (uInt)size };

	if (inflateInit2(&stream, 15 + 16) != Z_OK)
		return 0;
	inflate(&stream, Z_SYNC_FLUSH);
	inflateEnd(&stream);
	return size - stream.avail_out;
}

/* Whether line has the key with this value: as pfw_json_key_*() wrote it, to its end. */
static bool has_pair(const char *line, size_t bytes, const char *pair, const char *pair_end)
{
	size_t length = (size_t)(pair_end - pair);
	const char *at = memmem(line, bytes, pair, length);

	return at && (size_t)(at - line) + length < bytes && strchr(",}", at[length]);
}

enum pfw_trace_owner pfw_trace_owner(int fd, const struct pfw_spool_header *header)
{
	static const char name[] = "\"name\":\"process\"";
	unsigned char file[FIRST_LINE_MAX];
	char inflated[FIRST_LINE_MAX], pair[64 + PFW_JSON_SLACK], *end;
	const char *line = (const char *)file, *newline;
	ssize_t got = pread(fd, file, sizeof(file), 0);
	size_t bytes = got > 0 ? (size_t)got : 0;

	if (atomic_load_explicit(&header->compressed, memory_order_relaxed)) {
		if (bytes >= 2 && (file[0] != 0x1f || file[1] != 0x8b))
			return PFW_TRACE_OTHER;
		bytes = inflate_head(file, bytes, inflated, sizeof(inflated));
		line = inflated;
	}
	newline = memchr(line, '\n', bytes);
	if (!newline)
		return bytes == FIRST_LINE_MAX ? PFW_TRACE_OTHER : PFW_TRACE_UNKNOWN;
	bytes = (size_t)(newline - line);
	pair[0] = '{'; /* no comma is due behind it */
	end = pfw_json_key_u64(pair + 1, "pid", (uint64_t)header->pid);
	if (!has_pair(line, bytes, name, name + sizeof(name) - 1) ||
	    !has_pair(line, bytes, pair + 1, end))
		return PFW_TRACE_OTHER;
	end = pfw_json_key_us(pair + 1, "start_ts", header->start_ns);
	return has_pair(line, bytes, pair + 1, end) ? PFW_TRACE_OURS : PFW_TRACE_OTHER;
}
