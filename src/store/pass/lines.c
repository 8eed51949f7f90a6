/* store/pass/lines.c - the lines of a block, inside a pass's work(); see pass.h. */
#include <string.h>

#include "common/base/order.h"
#include "store/pass/pass.h"
#include "store/traces/ranks.h"

void pfw_pass_lines_init(struct pfw_pass_lines *lines, struct pfw_pass_block *block)
{
	block->lines = 0;
	block->walked = false;
	block->least_ns = INT64_MAX;
	block->greatest_ns = INT64_MIN;
	lines->block = block;
	lines->file = block->file;
	lines->next = lines->end = block->text;
	lines->piece = 0;
	lines->entry.numbered = false;
	lines->recent = (struct pfw_processes_recent){ .pid = 0 };
	if (!block->piece)
		lines->end += block->bytes;
}

void pfw_pass_lines_problem(struct pfw_pass_lines *lines, const char *format, ...)
{
	struct pfw_pass_block *block = lines->block;
	va_list args;

	/* The walk over the whole block has reported it. */
	if (block->piece)
		return;
	va_start(args, format);
	pfw_problems_vadd(block->problems, block->lines,
			  block->at + (uint64_t)(lines->text - block->text), format, args);
	va_end(args);
}

/* Whether the current line is an event; reports a bad line. */
static __attribute__((noinline)) bool take(struct pfw_pass_lines *lines, bool whole)
{
	struct pfw_pass_block *block = lines->block;

	if (lines->bytes > PFW_SCAN_LINE_MAX) {
		if (!block->piece)
			pfw_problems_add_long(block->problems, block->lines,
					      block->at + (uint64_t)(lines->text - block->text),
					      lines->bytes);
		return false;
	}
	if (lines->entry.kind == PFW_ENTRY_BAD)
		pfw_pass_lines_problem(lines, "%s at character %zu%s", lines->entry.why,
				       lines->entry.why_at + 1,
				       whole ? "" : ": the last line is cut");
	return lines->entry.kind == PFW_ENTRY_EVENT;
}

/* Report a required key that is missing or has a wrong type.  The line stays an event.  Ids are not
 * checked: DFTracer writes some as text. */
static void check_keys(struct pfw_pass_lines *lines)
{
	const struct pfw_entry *entry = &lines->entry;
	unsigned wrong = entry->wrong & ~(unsigned)PFW_ENTRY_ID;
	unsigned missing = pfw_entry_missing(entry);

	if (missing)
		pfw_pass_lines_problem(lines, "no `%s`", pfw_entry_key_name(missing & -missing));
	if (wrong)
		pfw_pass_lines_problem(lines, "`%s`: a value of the wrong type, or out of range",
				       pfw_entry_key_name(wrong & -wrong));
}

static void note_times(struct pfw_pass_block *block, const struct pfw_entry *entry)
{
	int64_t end;

	if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end))
		end = INT64_MAX;
	PFW_LOWER(block->least_ns, entry->ts_ns);
	PFW_RAISE(block->greatest_ns, end);
}

/* Go on at the next piece. */
static bool next_piece(struct pfw_pass_lines *lines)
{
	struct pfw_pass_block *block = lines->block;
	const struct pfw_pass_piece *piece;

	if (lines->piece == block->pieces)
		return false;
	piece = &block->piece[lines->piece++];
	lines->next = block->text + piece->begin;
	lines->end = block->text + piece->end;
	block->lines = piece->line;
	return true;
}

bool pfw_pass_lines_next(struct pfw_pass_lines *lines)
{
	struct pfw_pass_block *block = lines->block;
	const char *end = block->text + block->bytes;

	while (lines->next < lines->end || next_piece(lines)) {
		const char *stop = pfw_entry_parse_next(&lines->entry, lines->next, end);

		lines->text = lines->next;
		lines->bytes = (size_t)(stop - lines->text);
		lines->next = stop + (stop < end);
		block->lines++;
		/* The fast path accepts only lines that have all keys, except dur. */
		if (!lines->entry.fast || lines->bytes > PFW_SCAN_LINE_MAX ||
		    (lines->entry.ph == 'X' && !(lines->entry.has & PFW_ENTRY_DUR))) {
			if (!take(lines, stop < end))
				continue;
			check_keys(lines);
		}
		if (block->traces)
			lines->file = pfw_ranks_file(block->traces, block->file, &lines->entry);
		pfw_processes_set(block->processes, block->file, &lines->entry, &lines->recent);
		if (lines->entry.has & ~lines->entry.wrong & PFW_ENTRY_TS)
			note_times(block, &lines->entry);
		return true;
	}
	block->walked = true;
	return false;
}

const char *pfw_pass_search(const struct pfw_pass_block *block, const char *text, const char **at,
			    size_t *bytes)
{
	const char *end = block->text + block->bytes, *line, *newline;
	const char *hit = memmem(*at, (size_t)(end - *at), text, strlen(text));

	if (!hit)
		return NULL;
	line = memrchr(*at, '\n', (size_t)(hit - *at));
	line = line ? line + 1 : *at;
	newline = memchr(hit, '\n', (size_t)(end - hit));
	*at = newline ? newline + 1 : end;
	*bytes = (size_t)((newline ? newline : end) - line);
	return line;
}
