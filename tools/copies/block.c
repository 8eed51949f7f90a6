/* tools/copies/block.c - what becomes of the lines of one block; see copies.h. */
#include <errno.h>
#include <string.h>

#include "copies/copies.h"
#include "store/line/hash.h"

/* The lines of a member that is not made yet. */
struct part {
	const struct copies *copies;
	unsigned number; /* of the worker */
	struct copies_worker *worker;
	enum copies_form form;
	struct pfw_gzip_summary summary;
	struct pfw_sorted_mark mark;
	bool leads; /* so far all lines are `process` lines that precede all others */
	struct pfw_buffer *out;
};

static void begin(struct part *part, const struct pfw_sorted_mark *mark)
{
	part->summary = (struct pfw_gzip_summary){ .least_ns = UINT64_MAX };
	part->mark = (struct pfw_sorted_mark){ .cut = mark->cut,
					       .first = mark->first,
					       .least_ns = INT64_MAX,
					       .greatest_ns = INT64_MIN };
	part->leads = mark->first;
	part->worker->text.bytes = 0;
}

/* Add a line to the figures of the headers, as store/pack does. */
static void count(struct part *part, const struct pfw_entry *entry, const char *line, size_t bytes)
{
	struct pfw_gzip_summary *summary = &part->summary;
	struct pfw_sorted_mark *mark = &part->mark;
	int64_t ts_ns = entry->ts_ns, end_ns;

	part->leads = part->leads && entry->ph == 'M' && pfw_slice_is(&entry->cat, "pfw") &&
		      pfw_slice_is(&entry->name, "process");
	mark->checksum += pfw_linehash(line, bytes);
	mark->metadata += entry->ph == 'M';
	mark->pid = !summary->lines || mark->pid == entry->pid ? entry->pid : 0;
	summary->lines++;
	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS))
		return;
	if (!part->leads) {
		mark->least_ns = ts_ns < mark->least_ns ? ts_ns : mark->least_ns;
		mark->greatest_ns = ts_ns > mark->greatest_ns ? ts_ns : mark->greatest_ns;
	}
	if (entry->dur_ns < 0 || __builtin_add_overflow(ts_ns, entry->dur_ns, &end_ns))
		end_ns = ts_ns;
	pfw_gzip_add_times(summary, ts_ns, end_ns);
}

static int open_compressor(struct part *part)
{
	if (part->form == COPIES_SORTED && !part->worker->member)
		return pfw_member_open(&part->worker->member, PFW_LEVEL_FAST);
	if (part->form == COPIES_GZIP && !part->worker->gzip)
		return pfw_gzip_open(&part->worker->gzip);
	return 0;
}

/* Make a member of the first `bytes` of the text, or pass the text on. */
static int end(struct part *part, size_t bytes)
{
	struct copies_worker *worker = part->worker;
	size_t room = part->form == COPIES_SORTED ? pfw_member_bound(bytes) : pfw_gzip_bound(bytes);
	int error = open_compressor(part);
	int64_t made;

	if (!bytes || error)
		return error;
	if (part->form == COPIES_PLAIN)
		return pfw_buffer_add(part->out, worker->text.data, bytes);
	if (pfw_buffer_room(part->out, part->out->bytes + room))
		return -ENOMEM;
	made = part->form == COPIES_SORTED
		       ? pfw_member_make(worker->member, part->out->data + part->out->bytes, room,
					 worker->text.data, bytes, &part->summary, &part->mark, 0)
		       : pfw_gzip_member(worker->gzip, part->out->data + part->out->bytes, room,
					 worker->text.data, bytes, &part->summary);
	if (made < 0)
		return (int)made;
	part->out->bytes += (size_t)made;
	return 0;
}

/* Add a line; a member that has no room for it is made first. */
static int add(struct part *part, const struct pfw_pass_lines *lines)
{
	struct pfw_buffer *text = &part->worker->text;
	size_t begins = text->bytes, bytes;
	int error = part->copies->line(part->copies->user, part->number, text, lines);

	error = error ?: pfw_buffer_add(text, "\n", 1);
	if (error)
		return error;
	bytes = text->bytes - begins;
	if (begins && text->bytes > PFW_GZIP_TEXT_MAX) {
		const struct pfw_sorted_mark rest = { .cut = part->mark.cut, .first = part->leads };

		error = end(part, begins);
		memmove(text->data, text->data + begins, bytes);
		begin(part, &rest);
		text->bytes = bytes;
		begins = 0;
	}
	count(part, &lines->entry, text->data + begins, bytes - 1);
	return error;
}

int copies_block(const struct copies *copies, unsigned worker, enum copies_form form,
		 const struct pfw_sorted_mark *mark, struct pfw_pass_block *block,
		 struct pfw_buffer *out)
{
	struct part part = { .copies = copies,
			     .number = worker,
			     .worker = &copies->worker[worker],
			     .form = form,
			     .out = out };
	struct pfw_pass_lines lines;
	int error = 0;

	begin(&part, mark);
	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines))
		error = add(&part, &lines);
	return error ?: end(&part, part.worker->text.bytes);
}
