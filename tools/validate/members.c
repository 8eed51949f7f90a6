/* tools/validate/members.c - headers of gzip members against the lines in them; see validate.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/gzip/member.h"
#include "store/line/hash.h"
#include "store/pass/pass.h"
#include "store/read/input.h"
#include "validate/validate.h"

/* What is wrong with a member; the result of its block. */
struct wrong {
	uint64_t at;
	char text[160];
};

struct members {
	struct validate *check;
	int fd;
};

/* The lines of a member, as its header and mark should have them. */
struct figures {
	uint64_t lines, metadata, checksum, pid;
	bool one_pid, untimed, whole_us;
	int64_t least_ns, greatest_ns; /* ts and ends */
	int64_t first_ns, last_ns; /* ts, without `process` lines at its begin if it is `first` */
};

static void add_times(struct figures *figures, const struct pfw_entry *entry, bool leads)
{
	int64_t ts_ns = entry->ts_ns, end_ns;

	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS)) {
		figures->untimed |= !leads;
		return;
	}
	if (entry->dur_ns < 0 || __builtin_add_overflow(ts_ns, entry->dur_ns, &end_ns))
		end_ns = ts_ns;
	figures->whole_us &= ts_ns % 1000 == 0 && entry->dur_ns % 1000 == 0;
	if (!leads) {
		figures->first_ns = ts_ns < figures->first_ns ? ts_ns : figures->first_ns;
		figures->last_ns = ts_ns > figures->last_ns ? ts_ns : figures->last_ns;
	}
	if (ts_ns < 0) /* the header's times are unsigned */
		return;
	figures->least_ns = ts_ns < figures->least_ns ? ts_ns : figures->least_ns;
	figures->greatest_ns = end_ns > figures->greatest_ns ? end_ns : figures->greatest_ns;
}

static void add_lines(struct figures *figures, struct pfw_pass_block *block, bool first)
{
	struct pfw_pass_lines lines;
	bool leads = first;

	*figures = (struct figures){ .one_pid = true,
				     .whole_us = true,
				     .least_ns = INT64_MAX,
				     .greatest_ns = INT64_MIN,
				     .first_ns = INT64_MAX,
				     .last_ns = INT64_MIN };
	figures->checksum = pfw_linehash_text(block->text, block->bytes, &figures->lines);
	pfw_pass_lines_init(&lines, block);
	for (uint64_t i = 0; pfw_pass_lines_next(&lines); i++) {
		const struct pfw_entry *entry = &lines.entry;

		leads = leads && entry->ph == 'M' && pfw_slice_is(&entry->name, "process");
		figures->metadata += entry->ph == 'M';
		figures->one_pid &= !i || entry->pid == figures->pid;
		figures->pid = entry->pid;
		add_times(figures, entry, leads);
	}
}

__attribute__((format(printf, 2, 3))) static int say(struct pfw_pass_block *block,
						     const char *format, ...)
{
	struct wrong *wrong = malloc(sizeof(*wrong));
	va_list values;

	if (!wrong)
		return -ENOMEM;
	va_start(values, format);
	vsnprintf(wrong->text, sizeof(wrong->text), format, values);
	va_end(values);
	wrong->at = block->block->at;
	block->result = wrong;
	return 0;
}

/* Whether the header has these times.  A text in whole µs was made of exact ones. */
static bool has_times(const struct pfw_block *header, const struct figures *figures)
{
	int64_t slack = figures->whole_us ? 999 : 0;

	if (figures->untimed || figures->least_ns > figures->greatest_ns)
		return true;
	return header->least_ns >= figures->least_ns &&
	       header->least_ns - figures->least_ns <= slack &&
	       header->greatest_ns >= figures->greatest_ns &&
	       header->greatest_ns - figures->greatest_ns <= 2 * slack;
}

static int check_mark(struct pfw_pass_block *block, const struct pfw_sorted_mark *mark,
		      const struct figures *figures)
{
	if (mark->metadata != figures->metadata)
		return say(block,
			   "its mark says %" PRIu32 " lines of metadata, and there are %" PRIu64,
			   mark->metadata, figures->metadata);
	if (mark->pid && (mark->pid != figures->pid || !figures->one_pid))
		return say(block, "its mark says that all lines are of process %" PRIu64,
			   mark->pid);
	if (mark->checksum != figures->checksum)
		return say(block, "its mark's checksum does not fit its lines");
	if (!figures->untimed && figures->first_ns <= figures->last_ns &&
	    (mark->least_ns != figures->first_ns || mark->greatest_ns != figures->last_ns))
		return say(block, "its mark says times that are not those of its lines");
	return 0;
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	const struct members *members = user;
	struct pfw_sorted_mark mark = { 0 };
	struct pfw_link link;
	struct figures figures;
	bool marked;

	(void)worker;
	if (!block->block->summed || pfw_chain_look(&link, members->fd, block->block->at))
		return 0; /* damaged, which has been said */
	marked = pfw_sorted_mark_read(link.header, link.header_bytes, &mark) == 0;
	add_lines(&figures, block, mark.first);
	if (block->problems->count)
		return 0;
	if (link.summary.lines != figures.lines)
		return say(block, "says %" PRIu32 " lines, and there are %" PRIu64,
			   link.summary.lines, figures.lines);
	if (!has_times(block->block, &figures))
		return say(block, "says times that are not those of its lines");
	return marked ? check_mark(block, &mark, &figures) : 0;
}

static int done(void *user, struct pfw_pass_block *block)
{
	const struct members *members = user;
	const struct wrong *wrong = block->result;
	char text[256];

	if (wrong) {
		snprintf(text, sizeof(text), "the header of this gzip member is wrong: %s",
			 wrong->text);
		validate_say_place(members->check, wrong->at, text);
	}
	return 0;
}

void validate_members(struct validate *check, const char *path)
{
	struct pfw_trace_file file = { .path = (char *)path };
	const struct pfw_traces traces = { .file = &file, .count = 1 };
	struct members members = { .check = check, .fd = pfw_input_open_fd(path) };
	const struct pfw_pass pass = {
		.traces = &traces, .user = &members, .work = work, .done = done
	};

	if (members.fd < 0)
		return;
	if (pfw_blocks_find(&file.blocks, path) == 0 && file.blocks.layout == PFW_LAYOUT_MEMBERS)
		pfw_pass_run(&pass);
	pfw_blocks_free(&file.blocks);
	close(members.fd);
}
