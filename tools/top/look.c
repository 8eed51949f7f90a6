/* tools/top/look.c - what a process has recorded since the last look: its file's new lines, its rings.
 *
 * Nothing is asked of the process, and nothing is written: its spool and its trace are read.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/encode/own_lines.h"
#include "common/format/clock.h"
#include "common/format/spool.h"
#include "store/gzip/member.h"
#include "store/read/scan.h"
#include "store/recover/image.h"
#include "store/recover/owner.h"
#include "store/recover/unwritten.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"
#include "store/table/line.h"
#include "top/top.h"

#define READ_BYTES (256u << 10) /* stays in the cache */
#define RINGS_TRIES 16

/* ---- lines ---- */

/* The number of a category: mostly that of the line before. */
static int64_t cat_of(struct top *top, const struct pfw_slice *cat)
{
	const struct pfw_text_id *last = top->cats.count ? &top->cats.name[top->cat] : NULL;

	if (!last || last->bytes != cat->bytes || memcmp(last->text, cat->at, cat->bytes) != 0) {
		int64_t number = pfw_text_ids_of(&top->cats, 0, cat->at, cat->bytes);

		if (number < 0)
			return number;
		top->cat = (uint32_t)number;
	}
	return top->cat;
}

static int add_names(struct top *top, const struct pfw_table_line *line,
		     const struct top_sums *sums, bool ring)
{
	int64_t cat = cat_of(top, &line->cat);
	int error = cat < 0 ? -ENOMEM : 0;

	for (int i = 0; i < 1 + ring && !error; i++) {
		struct top_tallies *into = i ? &top->rings : &top->now;

		error = top_tally_add(&into->calls, cat, line->name.at, line->name.bytes, sums, 1);
		if (!error && line->fname.at)
			error = top_tally_add(&into->files, 0, line->fname.at, line->fname.bytes,
					      sums, 1);
	}
	return error;
}

static void take_end(struct top_process *process, const struct pfw_entry *entry)
{
	struct pfw_slice reason;

	if (pfw_arg_text(entry, "reason", &reason))
		pfw_slice_decode(&reason, process->reason, sizeof(process->reason));
	process->events = pfw_arg_u64(entry, "events", process->events);
	process->lost = pfw_arg_u64(entry, "lost", process->lost);
}

static int take_line(struct top *top, struct top_process *process, const struct pfw_entry *entry,
		     bool ring)
{
	bool call = pfw_is_io(&entry->cat);
	struct pfw_table_how how = { .plain = true, .args = call };
	struct pfw_table_line line;
	struct top_sums sums;

	if (entry->ph == 'M' && pfw_slice_is(&entry->cat, "pfw") &&
	    pfw_slice_is(&entry->name, "end"))
		take_end(process, entry);
	if (entry->ph != 'M') {
		top->events++;
		top->ring_events += ring;
	}
	if (top_rank_add(&top->rank[process->rank], entry, ring))
		return -ENOMEM;
	if (!pfw_table_line_read(&line, entry, &top->io, how))
		return 0;
	sums = (struct top_sums){ (int64_t)line.calls, line.bytes, line.dur_ns };
	if (call || line.summed) {
		top_sums_add(&process->now, &sums, 1);
		if (ring)
			top_sums_add(&process->ring, &sums, 1);
	}
	return add_names(top, &line, &sums, ring);
}

/* Whole lines, followed by PFW_ENTRY_PADDING zeroes. */
static int take_lines(struct top *top, struct top_process *process, const char *text, size_t bytes,
		      bool ring)
{
	const char *at = text, *end = text + bytes;
	struct pfw_entry entry = { .numbered = false };
	int error = 0;

	while (at < end && !error) {
		at = pfw_entry_parse_next(&entry, at, end) + 1;
		entry.process = (uint64_t)process->pid;
		entry.at_begin = false;
		if (entry.kind == PFW_ENTRY_EVENT)
			error = take_line(top, process, &entry, ring);
	}
	return error;
}

/* ---- the file ---- */

/* Read plain text up to `until`.  The bytes that were read; 0: no whole line; or -errno. */
static ssize_t take_text(struct top *top, struct top_process *process, uint64_t until)
{
	uint64_t left = until - process->at;
	ssize_t bytes = (ssize_t)(left < READ_BYTES ? left : READ_BYTES);
	char *text, *last;

	if (pfw_buffer_room(&top->text, READ_BYTES + PFW_ENTRY_PADDING))
		return -ENOMEM;
	text = top->text.data;
	bytes = pfw_full_read(process->fd, text, (size_t)bytes, process->at);
	last = bytes > 0 ? memrchr(text, '\n', (size_t)bytes) : NULL;
	if (!last)
		return bytes < 0 ? bytes : 0;
	bytes = last + 1 - text;
	memset(last + 1, 0, PFW_ENTRY_PADDING);
	return take_lines(top, process, text, (size_t)bytes, false) ?: bytes;
}

/* The same of a gzip member. */
static ssize_t take_member(struct top *top, struct top_process *process, uint64_t until)
{
	struct pfw_link link;
	size_t bytes, text;
	int error = pfw_chain_look(&link, process->fd, process->at);

	if (error)
		return error == -EAGAIN ? 0 : error;
	bytes = link.summary.member_bytes;
	if (until - process->at < bytes)
		return 0;
	if (bytes > 2 * PFW_SCAN_LINE_MAX)
		return -EBADMSG;
	if (pfw_buffer_room(&top->member, bytes))
		return -ENOMEM;
	error = pfw_full_read_all(process->fd, top->member.data, bytes, process->at);
	text = error ? 0 : pfw_unzip_bytes(top->member.data, bytes);
	if (error || text > PFW_SCAN_LINE_MAX)
		return error ?: -EBADMSG;
	if (pfw_buffer_room(&top->text, text + PFW_ENTRY_PADDING))
		return -ENOMEM;
	error = pfw_unzip_member(top->unzip, top->member.data, bytes, top->text.data, text);
	if (error)
		return error;
	memset(top->text.data + text, 0, PFW_ENTRY_PADDING);
	return take_lines(top, process, top->text.data, text, false) ?: (ssize_t)bytes;
}

/* Read the file up to a place where a line and a member end.  0 or -ENOMEM. */
static int take_file(struct top *top, struct top_process *process, uint64_t until)
{
	ssize_t taken = 1;

	if (process->fd >= 0 && !process->at)
		process->gzip = pfw_is_gzip_fd(process->fd) == 1;
	while (process->fd >= 0 && process->at < until && taken > 0 && !*top->stop) {
		taken = process->gzip ? take_member(top, process, until)
				      : take_text(top, process, until);
		process->at += taken > 0 ? (uint64_t)taken : 0;
	}
	if (taken == -ENOMEM)
		return -ENOMEM;
	/* Damage: go on after it. */
	if (taken < 0) {
		process->damaged = true;
		process->at = until;
	}
	return 0;
}

/* Whether a file that was made since the last look is the trace of the process, which has ended. */
static bool is_its_trace(const struct top_process *process)
{
	struct pfw_claim claim;

	return !pfw_claim_read(&claim, process->path) && claim.ours &&
	       claim.pid == (uint64_t)process->pid && claim.start_ns == (int64_t)process->start_ns;
}

static int take_rest(struct top *top, struct top_process *process)
{
	struct stat st;
	int error = 0;

	if (process->fd < 0 && is_its_trace(process))
		process->fd = pfw_open_file(process->path, PFW_OPEN_LINK, NULL);
	if (process->fd >= 0 && !fstat(process->fd, &st) && !process->from_now)
		error = take_file(top, process, (uint64_t)st.st_size);
	if (process->fd >= 0)
		close(process->fd);
	process->fd = -1;
	return error;
}

/* Open the trace that the header names; a trace that was moved goes on in another file. */
static int open_trace(struct top *top, struct top_process *process, const char *path)
{
	struct stat st;
	int error = 0;

	if (process->fd >= 0 && !stat(path, &st) && st.st_dev == process->device &&
	    st.st_ino == process->inode && !strcmp(process->path, path))
		return 0;
	if (process->fd >= 0 && stat(path, &st))
		return 0; /* removed, or of another root: what is open goes on */
	if (process->fd >= 0 && (st.st_dev != process->device || st.st_ino != process->inode))
		error = take_rest(top, process);
	if (strcmp(process->path, path) != 0) {
		free(process->path);
		process->path = strdup(path);
		if (!process->path)
			return -ENOMEM;
	}
	if (process->fd >= 0 || error)
		return error;
	process->at = 0;
	process->fd = pfw_open_file(path, PFW_OPEN_LINK, &st);
	process->device = st.st_dev;
	process->inode = st.st_ino;
	return 0;
}

/* ---- the spool ---- */

static const struct pfw_slot *newest(const struct pfw_spool_header *header)
{
	const struct pfw_slot *a = &header->slot[0], *b = &header->slot[1];

	return atomic_load_explicit(&a->generation, memory_order_relaxed) >
			       atomic_load_explicit(&b->generation, memory_order_relaxed)
		       ? a
		       : b;
}

/* The state letter of /proc/PID/stat, after the name in parentheses; '?': unknown. */
static char proc_state(int32_t pid)
{
	char path[32], text[512], *at;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = pfw_open_file(path, 0, NULL);
	if (fd < 0)
		return '?';
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	at = strrchr(text, ')');
	return at && at[1] == ' ' ? at[2] : '?';
}

static void take_header(struct top_process *process, const struct pfw_spool_header *header)
{
	const struct pfw_control *control = &header->control;
	char state = proc_state(process->pid);

	process->events = newest(header)->events;
	process->lost = pfw_spool_lost(header);
	process->waited = atomic_load_explicit(&header->waited.count, memory_order_relaxed);
	process->waited_ns = atomic_load_explicit(&header->waited.last_ns, memory_order_relaxed);
	process->step =
		atomic_load_explicit(&control->stepping, memory_order_relaxed)
			? (int64_t)atomic_load_explicit(&control->step, memory_order_relaxed)
			: -1;
	process->state = state == 'T' || state == 't' ? TOP_STOPPED
			 : atomic_load_explicit(&control->paused, memory_order_relaxed) ? TOP_PAUSED
											: TOP_RUNS;
}

static int take_rings(struct top *top, struct top_process *process, struct pfw_unwritten *live)
{
	uint64_t written = process->events;
	int64_t before = top->events;
	bool runs = pfw_unwritten_runs(live);
	const char *text;
	size_t bytes;
	int error = 0;

	while (!error && (bytes = pfw_unwritten_next(live, &text)))
		error = take_lines(top, process, text, bytes, runs);
	process->events = written + (uint64_t)(top->events - before);
	return error;
}

/* Sums of short calls may change faster than they can be copied. */
static int open_rings(const struct top *top, const struct top_process *process,
		      struct pfw_unwritten **live)
{
	const struct pfw_spool_places places = { .dir = top->dirs.dir };
	char why[PFW_LIVE_WHY_BYTES];
	int error = -EBUSY;

	for (int tries = 0; error == -EBUSY && tries < RINGS_TRIES && !*top->stop; tries++)
		error = pfw_unwritten_open(live, process->path, &places, why);
	return error;
}

/* Read the file and the rings as of one moment. */
static int take_both(struct top *top, struct top_process *process,
		     const struct pfw_spool_header *header)
{
	struct pfw_unwritten *live = NULL;
	uint64_t until = newest(header)->offset;
	int error = open_rings(top, process, &live);

	if (error == -ENOMEM)
		return error;
	process->missed = error && error != -ENOENT;
	if (!error) {
		until = pfw_unwritten_offset(live);
		take_header(process, pfw_unwritten_header(live));
	}
	if (process->from_now && process->fd >= 0) {
		process->gzip = pfw_is_gzip_fd(process->fd) == 1;
		process->at = until;
	}
	process->from_now = false;
	error = take_file(top, process, until);
	if (live && !error)
		error = take_rings(top, process, live);
	if (live && !pfw_unwritten_runs(live))
		process->state = TOP_KILLED;
	if (live)
		pfw_unwritten_close(live);
	return error;
}

static int take_spool(struct top *top, struct top_process *process,
		      const struct pfw_spool_header *header, const char *trace)
{
	int error = open_trace(top, process, trace);

	take_header(process, header);
	return error ?: take_both(top, process, header);
}

/* ---- all ---- */

static int look_at(struct top *top, struct top_process *process)
{
	struct pfw_spool_image image = { 0 };
	char why[PFW_SPOOL_WHY_BYTES];
	int error, fd = pfw_open_file(process->spool, 0, NULL);
	bool lives = false;

	process->now = (struct top_sums){ 0 };
	top_sums_add(&process->now, &process->ring, -1);
	process->ring = (struct top_sums){ 0 };
	process->missed = false;
	if (fd >= 0) {
		lives = !pfw_spool_image_header(&image, fd, why) &&
			image.header->start_ns == process->start_ns &&
			atomic_load_explicit(&image.header->state, memory_order_relaxed) ==
				PFW_SPOOL_LIVE;
		error = lives ? take_spool(top, process, image.header,
					   pfw_spool_trace_path(image.header))
			      : 0;
		pfw_spool_image_release(&image);
		close(fd);
	} else {
		error = fd == -ENOMEM ? -ENOMEM : 0;
	}
	if (!lives && !error) {
		process->state = TOP_ENDED;
		error = take_rest(top, process);
	}
	if (top->looks || top->all)
		top_sums_add(&process->total, &process->now, 1);
	top_sums_add(&top->sums, &process->now, 1);
	top->rank[process->rank].processes += process->state < TOP_ENDED;
	return error;
}

static void release(struct top_process *process)
{
	if (process->fd >= 0)
		close(process->fd);
	free(process->spool);
	free(process->path);
}

/* Processes that had ended at the last look were shown. */
void top_drop_ended(struct top *top)
{
	size_t kept = 0;

	for (size_t i = 0; i < top->processes; i++) {
		if (top->process[i].state < TOP_ENDED) {
			top->process[kept++] = top->process[i];
			continue;
		}
		top->ended_lost += top->process[i].lost;
		release(&top->process[i]);
	}
	top->processes = kept;
}

/* The sums of this interval begin with those of the rings, which the file has by now. */
static int begin(struct top *top)
{
	int64_t mono_ns = (int64_t)pfw_clock_ns(CLOCK_MONOTONIC);
	int error;

	top->looked_ns[2] = top->looked_ns[1];
	top->looked_ns[1] = top->looked_ns[0];
	top->looked_ns[0] = (int64_t)pfw_clock_ns(CLOCK_REALTIME);
	top->length_ns = mono_ns - top->mono_ns;
	top->mono_ns = mono_ns;
	top_tally_clear(&top->now.calls);
	top_tally_clear(&top->now.files);
	error = top_tally_merge(&top->now.calls, &top->rings.calls, -1);
	error = error ?: top_tally_merge(&top->now.files, &top->rings.files, -1);
	top_tally_clear(&top->rings.calls);
	top_tally_clear(&top->rings.files);
	top->sums = (struct top_sums){ 0 };
	top->events = -top->ring_events;
	top->ring_events = 0;
	top_ranks_begin(top);
	return error;
}

int top_look(struct top *top)
{
	int error = begin(top);

	for (size_t i = 0; i < top->processes && !error; i++)
		error = look_at(top, &top->process[i]);
	error = error ?: top_ranks_end(top);
	if (!error && (top->looks || top->all)) {
		error = top_tally_merge(&top->total.calls, &top->now.calls, 1);
		error = error ?: top_tally_merge(&top->total.files, &top->now.files, 1);
	}
	top->looks++;
	return error;
}

void top_processes_release(struct top *top)
{
	for (size_t i = 0; i < top->processes; i++)
		release(&top->process[i]);
	free(top->process);
}
