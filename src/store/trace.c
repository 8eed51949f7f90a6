/* trace.c - what the first and the last line of a trace say of it; see trace.h. */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gzip.h"
#include "json.h"
#include "scan.h"
#include "spool.h"

#define SETTLED_NS 1000000000ll

static void find_text(const struct pfw_slice *args, const char *key, char *out, size_t size)
{
	struct pfw_value value;

	*out = '\0';
	if (pfw_object_find(args, key, &value) && value.type == PFW_VALUE_STRING)
		pfw_slice_decode(&value.text, out, size);
}

static uint64_t find_u64(const struct pfw_slice *args, const char *key, uint64_t fallback)
{
	struct pfw_value value;
	uint64_t number;

	return pfw_object_find(args, key, &value) && pfw_value_u64(&value, &number) ? number
										    : fallback;
}

void pfw_trace_take_process(struct pfw_trace *trace, const struct pfw_entry *entry)
{
	struct pfw_value value;

	trace->ours = true;
	trace->pid = entry->pid;
	trace->start_ns = entry->ts_ns;
	trace->first_id = entry->id;
	trace->rank = -1;
	if (pfw_object_find(&entry->args, "rank", &value) && !pfw_value_i64(&value, &trace->rank))
		trace->rank = -1;
	trace->world_size = find_u64(&entry->args, "world_size", 1);
	find_text(&entry->args, "run", trace->run, sizeof(trace->run));
	find_text(&entry->args, "host", trace->host, sizeof(trace->host));
}

static void take_end(struct pfw_trace *trace, const struct pfw_entry *entry)
{
	trace->ended = true;
	trace->end_ns = entry->ts_ns;
	trace->events = find_u64(&entry->args, "events", 0);
	trace->lost = find_u64(&entry->args, "lost", 0);
	find_text(&entry->args, "reason", trace->reason, sizeof(trace->reason));
}

/* What it was decided not to record, but for whole processes. */
static void take_excluded(struct pfw_trace *trace, const struct pfw_entry *entry)
{
	static const char *const names[PFW_EXCLUDED_REASONS] = PFW_EXCLUDED_NAMES;

	trace->excluded = 0;
	for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
		if (i != PFW_EXCLUDED_CHILDREN && i != PFW_EXCLUDED_TRACE)
			trace->excluded += find_u64(&entry->args, names[i], 0);
}

int pfw_trace_head(struct pfw_trace *trace, const char *path)
{
	struct pfw_scan scan;
	struct stat st;
	int error = pfw_scan_open(&scan, path);

	*trace = (struct pfw_trace){ .rank = -1 };
	if (error)
		return error;
	if (pfw_scan_next(&scan) == PFW_SCAN_LINE && pfw_scan_is(&scan, "process"))
		pfw_trace_take_process(trace, &scan.entry);
	pfw_scan_close(&scan);
	if (stat(path, &st) == 0)
		trace->bytes = (uint64_t)st.st_size;
	return 0;
}

/* Where the last member of ours that has lines begins: each says its length.  0 where they do not. */
static uint64_t last_member(int fd)
{
	unsigned char header[PFW_GZIP_HEADER_BYTES];
	struct pfw_gzip_summary summary;
	uint64_t at = 0, last = 0;

	while (pread(fd, header, sizeof(header), (off_t)at) == (ssize_t)sizeof(header) &&
	       pfw_gzip_read_summary(header, sizeof(header), &summary) == 0 &&
	       summary.member_bytes) {
		if (summary.lines)
			last = at;
		at += summary.member_bytes;
	}
	return last;
}

/* Where to begin reading so as to see the last two lines at least. */
static uint64_t tail_begin(const char *path, uint64_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char magic[2] = { 0 };
	uint64_t begin = bytes > 2 * PFW_JSON_LINE_MAX ? bytes - 2 * PFW_JSON_LINE_MAX : 0;

	if (fd < 0)
		return 0;
	if (pread(fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b)
		begin = last_member(fd);
	close(fd);
	return begin;
}

int pfw_trace_read(struct pfw_trace *trace, const char *path)
{
	enum pfw_scan_result result;
	struct pfw_scan scan;
	int error = pfw_trace_head(trace, path);

	if (error || !trace->ours)
		return error;
	error = pfw_scan_open_at(&scan, path, tail_begin(path, trace->bytes));
	if (error)
		return error;
	while ((result = pfw_scan_next(&scan)) != PFW_SCAN_END && result != PFW_SCAN_FAILED) {
		trace->ended = false;
		if (result == PFW_SCAN_LINE && pfw_scan_is(&scan, "end"))
			take_end(trace, &scan.entry);
		else if (result == PFW_SCAN_LINE && pfw_scan_is(&scan, "excluded"))
			take_excluded(trace, &scan.entry);
	}
	pfw_scan_close(&scan);
	return 0;
}

/* Made a second ago at least: a process that still runs writes at once what it has made a file for. */
static void let_settle(const struct stat *st)
{
	struct timespec now, rest = { 0 };
	int64_t age_ns;

	clock_gettime(CLOCK_REALTIME, &now);
	age_ns = (now.tv_sec - st->st_ctim.tv_sec) * 1000000000ll + now.tv_nsec -
		 st->st_ctim.tv_nsec;
	rest.tv_nsec = age_ns < 0 ? 999999999 : (long)(SETTLED_NS - age_ns);
	if (age_ns < SETTLED_NS)
		nanosleep(&rest, NULL);
}

bool pfw_trace_remove_empty(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st, named;
	bool gone = false;

	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && !st.st_size && st.st_uid == geteuid()) {
		let_settle(&st);
		gone = !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && !st.st_size &&
		       !lstat(path, &named) && named.st_ino == st.st_ino &&
		       named.st_dev == st.st_dev && !unlink(path);
	}
	close(fd);
	return gone;
}
