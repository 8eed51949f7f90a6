/* store/traces/ends.c - the first and the last line of a trace; see ends.h. */
#include "store/traces/ends.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/encode/encode.h"
#include "common/format/spool.h"
#include "store/gzip/member.h"
#include "store/line/args.h"
#include "store/read/scan.h"
#include "store/sys/open.h"

#define SETTLED_NS 1000000000ll

static void read_text(const struct pfw_entry *entry, const char *key, char *out, size_t size)
{
	struct pfw_slice text;

	*out = '\0';
	if (pfw_arg_text(entry, key, &text))
		pfw_slice_decode(&text, out, size);
}

void pfw_trace_take_process(struct pfw_trace *trace, const struct pfw_entry *entry)
{
	struct pfw_value stacks;
	struct pfw_slice clock;

	trace->ours = true;
	trace->pid = entry->pid;
	trace->start_ns = entry->ts_ns;
	trace->first_id = entry->id;
	trace->rank = pfw_arg_i64(entry, "rank", -1);
	trace->world_size = pfw_arg_u64(entry, "world_size", 1);
	read_text(entry, "run", trace->run, sizeof(trace->run));
	read_text(entry, "host", trace->host, sizeof(trace->host));
	read_text(entry, "boot", trace->boot, sizeof(trace->boot));
	trace->stacks = pfw_entry_arg(entry, "stacks", &stacks) &&
			pfw_slice_is(&stacks.text, "true");
	trace->imported = pfw_arg_text(entry, "clock", &clock) && pfw_slice_is(&clock, "imported");
}

static void take_end(struct pfw_trace *trace, const struct pfw_entry *entry)
{
	trace->ended = true;
	trace->end_ns = entry->ts_ns;
	trace->events = pfw_arg_u64(entry, "events", 0);
	trace->lost = pfw_arg_u64(entry, "lost", 0);
	trace->untraced = pfw_arg_u64(entry, "untraced_children", 0);
	read_text(entry, "reason", trace->reason, sizeof(trace->reason));
}

/* Calls that were not recorded on purpose, except those of whole processes. */
static void take_excluded(struct pfw_trace *trace, const struct pfw_entry *entry)
{
	static const char *const names[PFW_EXCLUDED_REASONS] = PFW_EXCLUDED_NAMES;

	trace->excluded = 0;
	for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
		if (i != PFW_EXCLUDED_CHILDREN && i != PFW_EXCLUDED_TRACE)
			trace->excluded += pfw_arg_u64(entry, names[i], 0);
}

int64_t pfw_trace_rank_of_name(const char *path)
{
	const char *at, *last = NULL;
	int64_t rank = 0;
	size_t digits = 0;

	for (at = pfw_text_base(path); (at = strstr(at, "-rank")); at += 5)
		last = at + 5;
	while (last && last[digits] >= '0' && last[digits] <= '9' && digits < 10)
		rank = rank * 10 + (last[digits++] - '0');
	if (digits < 4 || (last[digits] != '.' && strncmp(last + digits, "-pid", 4) != 0))
		return -1;
	return rank;
}

#define FOREIGN_LINES 8 /* DFTracer's third line, or fourth, says its unit */

/* Whether a line says that DFTracer's times are not µs, which would be read as such. */
static bool says_other_unit(const struct pfw_entry *entry)
{
	struct pfw_slice name, unit;

	return pfw_slice_is(&entry->name, "CM") && pfw_arg_text(entry, "name", &name) &&
	       pfw_slice_is(&name, "time_metric") && pfw_arg_text(entry, "value", &unit) &&
	       !pfw_slice_is(&unit, "US");
}

int pfw_trace_head(struct pfw_trace *trace, const char *path)
{
	struct pfw_scan scan;
	struct stat st;
	int error = pfw_scan_open(&scan, path);

	*trace = (struct pfw_trace){ .rank = -1 };
	if (error)
		return error;
	for (unsigned i = 0; i < FOREIGN_LINES && !error && !trace->ours; i++) {
		if (pfw_scan_next(&scan) != PFW_SCAN_LINE)
			break;
		if (i == 0 && pfw_scan_is(&scan, "process"))
			pfw_trace_take_process(trace, &scan.entry);
		else if (says_other_unit(&scan.entry))
			error = -EDOM;
	}
	pfw_scan_close(&scan);
	if (trace->ours && trace->rank < 0) {
		trace->rank = pfw_trace_rank_of_name(path);
		trace->named = trace->rank >= 0;
	}
	if (stat(path, &st) == 0)
		trace->bytes = (uint64_t)st.st_size;
	return error;
}

/* The begin of the last member of ours that has lines.  0 if members have no lengths. */
static uint64_t last_member(int fd)
{
	struct pfw_link link;
	uint64_t last = 0;

	for (uint64_t at = 0; pfw_chain_look(&link, fd, at) == 0; at += link.summary.member_bytes) {
		if (link.summary.lines || link.damaged)
			last = at;
	}
	return last;
}

/* Where to begin reading in order to see at least the last two lines. */
static uint64_t tail_begin(const char *path, uint64_t bytes)
{
	int fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);
	uint64_t begin = bytes > 2 * PFW_JSON_LINE_MAX ? bytes - 2 * PFW_JSON_LINE_MAX : 0;

	if (fd < 0)
		return 0;
	if (pfw_is_gzip_fd(fd) == 1)
		begin = last_member(fd);
	close(fd);
	return begin;
}

static const struct pfw_trace *at(const struct pfw_trace *first, size_t stride, size_t i)
{
	return (const struct pfw_trace *)(const void *)((const char *)first + i * stride);
}

/* Whether "slurm-7.0-r1" is a step of "slurm-7-r1". */
static bool is_step(const char *run, const char *job)
{
	size_t bytes = strncmp(job, "slurm-", 6) ? 0 : 6 + strspn(job + 6, "0123456789");
	size_t end = strlen(job + bytes), all = strlen(run);

	return bytes && job[bytes] != '.' && !strncmp(run, job, bytes) && run[bytes] == '.' &&
	       all >= bytes + end && !strcmp(run + all - end, job + bytes);
}

size_t pfw_trace_newest(const struct pfw_trace *first, size_t stride, size_t count)
{
	size_t newest = 0, found;
	const char *job = NULL;

	for (int pass = 0; pass < 2; pass++) {
		found = count;
		for (size_t i = 0; i < count; i++) {
			const struct pfw_trace *trace = at(first, stride, i);

			if ((!job || is_step(trace->run, job)) &&
			    (found == count ||
			     trace->start_ns >= at(first, stride, found)->start_ns))
				found = i;
		}
		newest = found < count ? found : newest;
		job = at(first, stride, newest)->run;
	}
	return newest;
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

/* Wait until the file is a second old: a running process writes at once to one it creates. */
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
	struct stat st, named;
	int fd = pfw_open_file(path, PFW_OPEN_WRITE | PFW_OPEN_MINE, &st);
	bool gone = false;

	if (fd < 0)
		return false;
	if (!st.st_size) {
		let_settle(&st);
		gone = !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && !st.st_size &&
		       !pfw_is_open_elsewhere(fd) && !lstat(path, &named) &&
		       named.st_ino == st.st_ino && named.st_dev == st.st_dev && !unlink(path);
	}
	close(fd);
	return gone;
}
