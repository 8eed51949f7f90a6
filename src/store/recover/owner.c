/* store/recover/owner.c - whose a spool and a trace are, whether the process lives; see owner.h. */
#include "store/recover/owner.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <zlib.h>

#include "common/format/spool.h"
#include "store/gzip/member.h"
#include "store/line/args.h"
#include "store/sys/open.h"
#include "store/sys/proc.h"

/* ---- the process ---- */

bool pfw_spool_is_of_here(const struct pfw_spool_header *header, char *why, size_t size)
{
	char here[72], boot[40];

	pfw_proc_host(here, sizeof(here));
	pfw_proc_boot_id(boot, sizeof(boot));
	/* An empty field was not readable for the process, and so proves nothing. */
	if (header->host[0] && strncmp(header->host, here, sizeof(here))) {
		snprintf(why, size, "it is of host %.71s and this is %s: repair it there",
			 header->host, here);
		return false;
	}
	if (header->boot_id[0] && !boot[0]) {
		snprintf(why, size,
			 "whether it is of this boot cannot be told, since /proc cannot be read "
			 "here: mount it, then repair");
		return false;
	}
	if (header->boot_id[0] && strncmp(header->boot_id, boot, sizeof(boot))) {
		snprintf(why, size,
			 "it is of an earlier boot of %s (%.39s): its trace is good as far as it "
			 "goes; remove the spool",
			 here, header->boot_id);
		return false;
	}
	return true;
}

/* In its own pid namespace the pid says whether the process lives.  From outside, a process is
 * searched that has the pid in its namespace.  If /proc hides processes, a living one is known by
 * having its spool mapped, as have its children. */
bool pfw_spool_process_lives(int fd, const struct pfw_spool_header *header)
{
	uint64_t here = pfw_proc_namespace();

	if (pfw_proc_alive(header->pid, header->start_time))
		return true;
	if (here == header->pid_namespace && here)
		return false;
	if (pfw_proc_alive_inside(header->pid, header->start_time, header->pid_namespace))
		return true;
	return here != PFW_PROC_NAMESPACE_ALL && pfw_is_open_elsewhere(fd);
}

void pfw_spool_program(const struct pfw_spool_header *header, char *out, size_t size)
{
	size_t bytes = strnlen(header->cmd, sizeof(header->cmd)), end = 0, at;

	while (end < bytes && header->cmd[end] != ' ')
		end++;
	for (at = end; at && header->cmd[at - 1] != '/';)
		at--;
	snprintf(out, size, "%.*s", (int)(end - at), header->cmd + at);
}

/* ---- the trace ---- */

#define FIRST_LINE_MAX 65536u /* room for the `process` line: a path and a command line, escaped */

/* Inflate the beginning of a gzip file; 0 bytes if it is not gzip or too short. */
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

/* Whether the text may be the beginning of a first line of ours, which was being written. */
static bool begins_as_ours(const char *text, size_t bytes)
{
	static const char begin[] = "{\"id\":";
	size_t most = sizeof(begin) - 1;

	return memcmp(text, begin, bytes < most ? bytes : most) == 0;
}

/* Whether the first line of a trace names that spool. */
static bool names_spool(const struct pfw_entry *entry, const struct stat *spool)
{
	char path[PATH_MAX];
	struct pfw_slice text;
	struct stat st;

	return pfw_arg_text(entry, "spool", &text) && pfw_slice_decode(&text, path, sizeof(path)) &&
	       lstat(path, &st) == 0 && st.st_dev == spool->st_dev && st.st_ino == spool->st_ino;
}

enum pfw_owner pfw_owner_of(int fd, const struct pfw_spool_header *header, const struct stat *spool)
{
	unsigned char file[FIRST_LINE_MAX];
	char inflated[FIRST_LINE_MAX];
	struct pfw_entry entry;
	const char *line = (const char *)file, *newline;
	ssize_t got = pread(fd, file, sizeof(file), 0);
	size_t bytes = got > 0 ? (size_t)got : 0;

	if (atomic_load_explicit(&header->compressed, memory_order_relaxed)) {
		if (bytes >= 2 && !pfw_is_gzip(file, bytes))
			return PFW_TRACE_OTHER;
		bytes = inflate_head(file, bytes, inflated, sizeof(inflated));
		line = inflated;
	}
	newline = memchr(line, '\n', bytes);
	if (!newline)
		return bytes < FIRST_LINE_MAX && begins_as_ours(line, bytes) ? PFW_TRACE_UNKNOWN
									     : PFW_TRACE_OTHER;
	pfw_entry_parse(&entry, line, (size_t)(newline - line));
	return entry.kind == PFW_ENTRY_EVENT && pfw_slice_is(&entry.name, "process") &&
			       entry.pid == (uint64_t)header->pid &&
			       pfw_arg_ns(&entry, "start_ts", -1) == (int64_t)header->start_ns &&
			       (!spool || names_spool(&entry, spool))
		       ? PFW_TRACE_OURS
		       : PFW_TRACE_OTHER;
}
