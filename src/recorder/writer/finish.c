/* recorder/writer/finish.c - the end of a trace or of a segment, and the rename of a trace. */
#define PFW_BUILDING
#include <pfw/pfw.h>

#include <string.h>

#include "common/base/os.h"
#include "common/encode/own_lines.h"
#include "recorder/spool/ring.h"
#include "recorder/writer/internal.h"

#define MARK_WAIT_NS 2000000ull
#define LAST_LOOKS 3 /* all records; then past torn ones, in two stretches of a ring */

/* Another thread may be between reserving a record and committing it: wait a moment.  A record
 * still uncommitted then, which holds up others, was left by a handler that jumped out. */
static bool wait_for_marks(void)
{
	bool left = false, others = false;
	int32_t self = pfw_os_gettid();

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		if (!pfw_ring_last_look(ring))
			continue;
		left = true;
		others |= atomic_load(&ring->tid) != self;
	}
	if (others)
		pfw_os_sleep_ns(MARK_WAIT_NS);
	return left;
}

static int end_segment_now(struct pfw_writer *writer, void *arg)
{
	struct pfw_spool_header *header = writer->spool->header;
	struct pfw_segment *segment = arg;
	int error = keeps(writer) ? -ENODATA : pfw_writer_pass_now(writer, NULL);

	if (!error && writer->ready) {
		pfw_writer_add_process_line(writer);
		segment->first_id = writer->segment_first_id ? writer->segment_first_id : 1;
		segment->last_id = writer->json.next_id - 1;
		set_text_end(writer,
			     pfw_line_segment(&writer->json, text_end(writer), segment->cycle,
					      segment->first_step, segment->steps,
					      segment->first_id, pfw_clock_ns(CLOCK_REALTIME)));
		error = pfw_writer_flush_text(writer);
		writer->segment_first_id = writer->json.next_id;
	}
	segment->path = pfw_spool_trace_path(header);
	segment->events = writer->json.events;
	segment->lost = pfw_spool_lost(header);
	return error;
}

int pfw_writer_segment(struct pfw_writer *writer, struct pfw_segment *segment)
{
	struct pfw_job job = { .run = end_segment_now, .arg = segment };

	return pfw_writer_run(writer, &job, true);
}

struct finish {
	const char *reason, *exec_path;
};

static bool any_drained(void)
{
	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next)
		if (pfw_ring_has_drained(ring))
			return true;
	return false;
}

static int finish_now(struct pfw_writer *writer, void *arg)
{
	const struct finish *finish = arg;
	int error = 0;

	for (int looks = 0; writer->ready && looks < LAST_LOOKS && !error; looks++) {
		if (looks && !wait_for_marks())
			break;
		if (keeps(writer)) {
			error = pfw_writer_keep_end(writer);
			continue;
		}
		writer->reported.sums_ns = 0; /* the last chance for sums */
		/* Without a write: lines after an `end` need another `end` in the same write, as no
		 * spool recovers them. */
		error = pfw_writer_pass(writer, false);
	}
	if (keeps(writer))
		return error;
	/* Lines since the last `end`, also those encoded while the disk was full. */
	if (writer->ready && !error &&
	    (writer->text.bytes || writer->offset != writer->ended_at ||
	     pfw_writer_losses_unreported(writer))) {
		pfw_writer_add_end(writer, writer->at_limit ? "limit" : finish->reason,
				   finish->exec_path);
		error = pfw_writer_flush_text(writer);
		writer->ended_at = error ? 0 : writer->offset;
	} else if (writer->ready && !error && any_drained()) {
		/* Padding and torn slots make no text, but a producer waits for their room. */
		error = pfw_writer_flush_text(writer);
	}
	return error;
}

int pfw_writer_finish(struct pfw_writer *writer, const char *reason, const char *exec_path)
{
	struct finish finish = { reason, exec_path };
	struct pfw_job job = { .run = finish_now, .arg = &finish, .quiet_emfile = true };
	int error = pfw_writer_run(writer, &job, false);

	return error == -EMFILE ? pfw_writer_run_in_new_thread(writer, &job) : error;
}

void pfw_writer_begin_anew(struct pfw_writer *writer, const char *path)
{
	struct pfw_spool_header *header = writer->spool->header;

	pfw_writer_close_trace(writer);
	memcpy(pfw_spool_trace_path(header), path, strlen(path) + 1);
	atomic_store(&header->file_made, 0);
	writer->offset = 0;
	writer->json.events = 0; /* `end` counts the events of its own file */
	writer->reported.process = false;
	pfw_writer_forget_modules(writer);
	writer->ended_at = 0;
	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next)
		ring->named_tid = 0;
	pfw_writer_commit(writer); /* the header slots must not promise bytes of the new file */
}

/* With PFW_KEEP a trace's name is that of its dumps: the next one's in `dump`.  *error: it is too
 * long, and the name stays. */
static const char *name_of(struct pfw_writer *writer, const char *path, char *dump, int *error)
{
	struct pfw_spool_header *header = writer->spool->header;

	if (!keeps(writer))
		return path;
	*error = pfw_name_dump(dump, path, atomic_load(&header->dumps) + 1);
	memcpy(writer->keep_name, path, strlen(path) + 1);
	return *error ? pfw_spool_trace_path(header) : dump;
}

void pfw_writer_begin_file(struct pfw_writer *writer, const char *path)
{
	struct pfw_writer_files files = PFW_NO_FILES;
	char dump[PFW_PATH_MAX];
	int error = 0;

	pfw_writer_lock(writer, &files);
	pfw_writer_begin_anew(writer, name_of(writer, path, dump, &error));
	pfw_writer_unlock(writer);
}

int pfw_writer_rename(struct pfw_writer *writer, const char *path)
{
	struct pfw_spool_header *header = writer->spool->header;
	char *old = pfw_spool_trace_path(header);
	struct pfw_writer_files files = PFW_NO_FILES;
	char dump[PFW_PATH_MAX];
	int error = 0;

	pfw_writer_lock(writer, &files);
	path = name_of(writer, path, dump, &error);
	writer->json.whole_us = header->whole_us; /* may change together with the name */
	if (!atomic_load(&header->file_made))
		memcpy(old, path, strlen(path) + 1);
	else if (strcmp(old, path))
		error = pfw_output_move(old, path);
	pfw_writer_unlock(writer);
	if (error != -EXDEV)
		return error;
	error = pfw_writer_finish(writer, "renamed", NULL);
	if (!error)
		pfw_writer_begin_file(writer, path);
	return error;
}
