/* recorder/writer/put.c - write text as pages or gzip members, then commit: free its records. */
#include "common/base/os.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/short_sums.h"
#include "recorder/writer/internal.h"

/* Compress the text once: if the write fails, the next try uses the same member. */
static int make_member(struct pfw_writer *writer)
{
	struct pfw_gzip_summary summary = {
		.lines = (uint32_t)writer->json.lines,
		.least_ns = writer->json.least_ns,
		.greatest_ns = writer->json.greatest_ns,
	};
	int64_t bytes;

	if (writer->member.bytes)
		return 0;
	bytes = pfw_gzip_member(writer->gzip, writer->member.start, writer->member.room,
				writer->text.start, writer->text.bytes, &summary);
	if (bytes < 0)
		return (int)bytes;
	writer->member.bytes = (size_t)bytes;
	return 0;
}

static uint64_t page_room(uint64_t offset)
{
	return PFW_PAGE_BYTES - offset % PFW_PAGE_BYTES;
}

/*
 * After an `end` no spool recovers a partial write.  A kill cuts a write only at a page boundary,
 * so a write that does not fit into the rest of the page starts on the next one.
 *
 * Text: pad the last line with blanks.  Recovery knows the old offset and restores the line break.
 */
static void fill_page(struct pfw_writer *writer, int fd, uint64_t room)
{
	static const char blank[PFW_PAGE_BYTES + 1] = {
		[0 ... PFW_PAGE_BYTES - 1] = ' ', [PFW_PAGE_BYTES] = '\n'
	};

	if (!pfw_output_write(fd, blank + PFW_PAGE_BYTES - room, room + 1, writer->offset - 1))
		writer->offset += room;
	else
		pfw_output_write(fd, "\n", 1, writer->offset - 1);
}

/* Gzip: pad with an empty member.  fit_member() has left room for it, or filled the page. */
static void fill_page_gzip(struct pfw_writer *writer, int fd, uint64_t room)
{
	char *pad = writer->member.start + writer->member.bytes;

	if (room < PFW_GZIP_PAD_LEAST || writer->member.room - writer->member.bytes < room)
		return;
	pfw_gzip_pad(pad, room);
	if (!pfw_output_write(fd, pad, room, writer->offset))
		writer->offset += room;
	else
		pfw_os_ftruncate(fd, writer->offset);
}

/* If the rest of the page is too short for an empty member, lengthen this one to the page's end. */
static void fit_member(struct pfw_writer *writer)
{
	uint64_t rest = page_room(writer->offset + writer->member.bytes);

	if (rest < PFW_GZIP_PAD_LEAST && writer->member.room - writer->member.bytes >= rest)
		writer->member.bytes =
			pfw_gzip_lengthen(writer->member.start, writer->member.bytes, rest);
}

static void begin_page(struct pfw_writer *writer, int fd, size_t bytes)
{
	uint64_t room = page_room(writer->offset);

	if (!writer->ended_at || room == PFW_PAGE_BYTES || bytes <= room)
		return;
	if (writer->gzip)
		fill_page_gzip(writer, fd, room);
	else
		fill_page(writer, fd, room);
}

/* A partial write does no harm: the next try starts at the same offset. */
static int write_text(struct pfw_writer *writer)
{
	const char *data = writer->text.start;
	size_t bytes = writer->text.bytes;
	int fd = pfw_writer_trace(writer), error;

	if (fd < 0)
		return fd;
	if (writer->gzip) {
		error = make_member(writer);
		if (error)
			return error;
		begin_page(writer, fd, writer->member.bytes);
		fit_member(writer);
		data = writer->member.start;
		bytes = writer->member.bytes;
	} else {
		begin_page(writer, fd, bytes);
	}
	error = pfw_output_write(fd, data, bytes, writer->offset);
	if (error) {
		pfw_os_ftruncate(fd, writer->offset); /* readers see whole lines only */
		if (error ==
		    -ESTALE) /* NFS: its server has been started again; the name may still do */
			pfw_writer_close_trace(writer);
		return error;
	}
	writer->offset += bytes;
	writer->member.bytes = 0;
	writer->text.bytes = 0;
	pfw_json_window(&writer->json);
	return 0;
}

/* Fill the older header slot, then free the records: recovery reads exactly one of the two. */
void pfw_writer_commit(struct pfw_writer *writer)
{
	struct pfw_spool_header *header = writer->spool->header;
	unsigned parity = ++writer->generation & 1;
	struct pfw_slot *slot = &header->slot[parity];

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		pfw_ring_save(ring, parity);
		if (ring->sums)
			pfw_sums_save(ring->sums, parity);
	}
	slot->offset = writer->offset;
	slot->next_id = writer->json.next_id;
	slot->events = writer->json.events;
	slot->torn = atomic_load(&header->lost[PFW_LOST_TORN].count);
	slot->first = writer->clock.first;
	slot->last = writer->clock.pair[writer->clock.count - 1];
	atomic_store_explicit(&slot->generation, writer->generation, memory_order_release);
	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		struct pfw_ring_chunk *retired = pfw_ring_free_drained(ring);

		if (retired)
			pfw_writer_return_stretch(writer, retired);
	}
	atomic_store(&writer->trace_bytes, writer->offset);
	atomic_store(&writer->events, writer->json.events);
	pfw_ring_space_made();
}

/* Whether a retry may succeed.  `made`: the file exists. */
static bool may_pass(int error, bool made)
{
	if (pfw_output_lacks_room(error))
		return true;
	switch (-error) {
	case EINTR:
	case EAGAIN:
		return true;
	case ENOENT:
	case ELOOP:
		return false;
	default:
		return made;
	}
}

/* Retry at the next pass, or give up for good. */
static int write_failed(struct pfw_writer *writer, int error)
{
	bool first = !atomic_load(&writer->stalled);
	bool made = atomic_load(&writer->spool->header->file_made);

	writer->last_error = error;
	if (error == -EMFILE && writer->quiet_emfile)
		return error; /* no message yet: the job runs again in a new thread */
	atomic_store(&writer->stalled, 1);
	if (first)
		pfw_output_say_error(writer->say, pfw_spool_trace_path(writer->spool->header),
				     error, made);
	if (!may_pass(error, made) && !atomic_exchange(&writer->dead, 1))
		writer->failed();
	return error;
}

int pfw_writer_flush_text(struct pfw_writer *writer)
{
	int error = 0;

	if (atomic_load(&writer->dead))
		return writer->last_error;
	if (atomic_load(&writer->spool->header->state) == PFW_SPOOL_ADOPTED)
		error = -ENOENT;
	else if (writer->text.bytes)
		error = write_text(writer);
	if (error)
		return write_failed(writer, error);
	atomic_store(&writer->stalled, 0);
	pfw_writer_commit(writer);
	return 0;
}
