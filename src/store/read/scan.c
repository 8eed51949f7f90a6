/* store/read/scan.c - the lines of a trace, one after the other; see scan.h. */
#include "store/read/scan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "store/read/input.h"

#define FIRST_ROOM (1u << 20)
/* The first reads are small, since of most files that are opened only the first line is needed. */
#define FIRST_PIECE (4u << 10)

int pfw_scan_open_tail(struct pfw_scan *scan, const char *path, const struct pfw_input_tail *tail)
{
	int error;

	*scan = (struct pfw_scan){ .path = path, .room = FIRST_ROOM, .piece = FIRST_PIECE };
	scan->buf = malloc(scan->room);
	if (!scan->buf)
		return -ENOMEM;
	error = tail ? pfw_input_open_tail(&scan->input, tail) : pfw_input_open(&scan->input, path);
	if (error)
		free(scan->buf);
	return error;
}

int pfw_scan_open(struct pfw_scan *scan, const char *path)
{
	return pfw_scan_open_tail(scan, path, NULL);
}

int pfw_scan_open_at(struct pfw_scan *scan, const char *path, uint64_t at)
{
	int error = pfw_scan_open(scan, path);

	if (error)
		return error;
	error = pfw_input_seek(scan->input, at);
	if (error)
		pfw_scan_close(scan);
	return error;
}

int pfw_scan_open_range(struct pfw_scan *scan, const char *path, uint64_t begin, uint64_t end)
{
	int error = pfw_scan_open(scan, path);

	if (error)
		return error;
	error = pfw_input_range(scan->input, begin, end);
	if (error)
		pfw_scan_close(scan);
	return error;
}

void pfw_scan_close(struct pfw_scan *scan)
{
	pfw_input_close(scan->input);
	free(scan->buf);
}

bool pfw_scan_is(const struct pfw_scan *scan, const char *name)
{
	return scan->entry.kind == PFW_ENTRY_EVENT && pfw_slice_is(&scan->entry.cat, "pfw") &&
	       pfw_slice_is(&scan->entry.name, name);
}

/* ---- problems ---- */

static enum pfw_scan_result too_long(struct pfw_scan *scan, uint64_t bytes)
{
	scan->problem.line = scan->line;
	scan->problem.at = scan->at;
	snprintf(scan->problem.text, sizeof(scan->problem.text),
		 "a line of %" PRIu64 " bytes: more than the %u that a line may have; left out",
		 bytes, PFW_SCAN_LINE_MAX);
	return PFW_SCAN_PROBLEM;
}

/* Report the error of the input, and how many lines preceded it. */
static enum pfw_scan_result input_problem(struct pfw_scan *scan)
{
	int error = scan->pending;
	bool cut = scan->end > scan->begin || scan->skipping;

	scan->pending = 0;
	scan->problem.line = 0;
	if (error != -EBADMSG) {
		scan->problem.at = scan->base + scan->end;
		snprintf(scan->problem.text, sizeof(scan->problem.text), "cannot be read: %s",
			 strerror(-error));
		return PFW_SCAN_FAILED;
	}
	scan->problem.at = pfw_input_problem_at(scan->input);
	snprintf(scan->problem.text, sizeof(scan->problem.text),
		 "%s; %" PRIu64 " whole line%s before it could be read%s",
		 pfw_input_problem(scan->input), scan->line, scan->line == 1 ? "" : "s",
		 cut ? ", part of another is left out" : "");
	scan->base += scan->end;
	scan->begin = scan->end = scan->looked = 0;
	scan->skipping = false;
	return PFW_SCAN_PROBLEM;
}

/* ---- lines ---- */

static void find_dialect(struct pfw_scan *scan)
{
	const struct pfw_entry *entry = &scan->entry;

	if (entry->kind == PFW_ENTRY_BRACKET && scan->line == 1)
		scan->bracket = true;
	if (entry->kind != PFW_ENTRY_EVENT || scan->dialect != PFW_DIALECT_UNKNOWN)
		return;
	if (entry->integer_ph || entry->has & PFW_ENTRY_TYPE)
		scan->dialect = PFW_DIALECT_DFTRACER_2;
	else if (scan->bracket || pfw_slice_is(&entry->cat, "dftracer"))
		scan->dialect = PFW_DIALECT_DFTRACER_1;
	else
		scan->dialect = PFW_DIALECT_PFW;
}

/* Return the line buf[begin..end); `whole`: its '\n' is at `end`. */
static enum pfw_scan_result give_line(struct pfw_scan *scan, size_t end, bool whole)
{
	scan->text = scan->buf + scan->begin;
	scan->bytes = end - scan->begin;
	scan->at = scan->base + scan->begin;
	scan->line++;
	scan->unterminated = !whole;
	scan->begin = scan->looked = end + whole;
	if (scan->bytes > PFW_SCAN_LINE_MAX)
		return too_long(scan, scan->bytes);
	pfw_entry_parse(&scan->entry, scan->text, scan->bytes);
	find_dialect(scan);
	return PFW_SCAN_LINE;
}

/* Make room after scan->end.  False: the current line is too long. */
static bool make_room(struct pfw_scan *scan)
{
	char *bigger;

	if (scan->begin) {
		memmove(scan->buf, scan->buf + scan->begin, scan->end - scan->begin);
		scan->base += scan->begin;
		scan->end -= scan->begin;
		scan->looked -= scan->begin;
		scan->begin = 0;
	}
	if (scan->end < scan->room)
		return true;
	if (scan->room >= PFW_SCAN_LINE_MAX)
		return false;
	bigger = realloc(scan->buf, scan->room * 2);
	if (!bigger)
		return false;
	scan->buf = bigger;
	scan->room *= 2;
	return true;
}

/* Read more text.  Return 1, 0 at the end, or -errno. */
static ssize_t read_more(struct pfw_scan *scan)
{
	size_t room = scan->room - scan->end;
	ssize_t got = pfw_input_read(scan->input, scan->buf + scan->end,
				     room < scan->piece ? room : scan->piece);

	if (scan->piece < FIRST_ROOM)
		scan->piece *= 4;
	if (got > 0)
		scan->end += (size_t)got;
	return got > 0 ? 1 : got;
}

/* Pass over the rest of a line that fills the buffer. */
static enum pfw_scan_result skip_line(struct pfw_scan *scan)
{
	uint64_t bytes = 0;

	scan->at = scan->base + scan->begin;
	scan->line++;
	scan->skipping = true;
	for (;;) {
		char *newline = memchr(scan->buf + scan->begin, '\n', scan->end - scan->begin);
		ssize_t got;

		if (newline) {
			bytes += (uint64_t)(newline - scan->buf) - scan->begin;
			scan->begin = scan->looked = (size_t)(newline - scan->buf) + 1;
			break;
		}
		bytes += scan->end - scan->begin;
		scan->base += scan->end;
		scan->begin = scan->end = scan->looked = 0;
		got = read_more(scan);
		if (got <= 0) {
			scan->pending = (int)got;
			break;
		}
	}
	scan->skipping = scan->pending != 0;
	return too_long(scan, bytes);
}

enum pfw_scan_result pfw_scan_next(struct pfw_scan *scan)
{
	for (;;) {
		char *newline;
		ssize_t got;

		newline = memchr(scan->buf + scan->looked, '\n', scan->end - scan->looked);
		if (newline)
			return give_line(scan, (size_t)(newline - scan->buf), true);
		scan->looked = scan->end;
		if (scan->pending)
			return input_problem(scan);
		if (!make_room(scan))
			return skip_line(scan);
		got = read_more(scan);
		if (got < 0)
			scan->pending = (int)got;
		if (got == 0 && scan->begin == scan->end)
			return PFW_SCAN_END;
		if (got == 0)
			return give_line(scan, scan->end, false);
	}
}

/* ---- scratch memory ---- */

char *pfw_scratch_new(void)
{
	void *scratch = mmap(NULL, PFW_SCRATCH_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return scratch == MAP_FAILED ? NULL : scratch;
}

void pfw_scratch_free(char *scratch)
{
	if (scratch)
		munmap(scratch, PFW_SCRATCH_BYTES);
}

struct pfw_slice pfw_scratch_plain(struct pfw_slice text, char *scratch)
{
	if (!text.escaped)
		return text;
	text.bytes = pfw_slice_decode(&text, scratch, PFW_SCRATCH_BYTES);
	text.at = scratch;
	text.escaped = false;
	return text;
}

void pfw_problems_vadd(struct pfw_problems *problems, uint64_t line, uint64_t at,
		       const char *format, va_list args)
{
	struct pfw_scan_problem *problem;

	if (problems->count == PFW_PROBLEMS_MAX) {
		problems->problem[PFW_PROBLEMS_MAX - 1].more++;
		return;
	}
	if (!problems->problem)
		problems->problem = malloc(PFW_PROBLEMS_MAX * sizeof(*problems->problem));
	if (!problems->problem)
		return;
	problem = &problems->problem[problems->count++];
	problem->line = line;
	problem->at = at;
	problem->more = 0;
	vsnprintf(problem->text, sizeof(problem->text), format, args);
}

void pfw_problems_add(struct pfw_problems *problems, uint64_t line, uint64_t at, const char *format,
		      ...)
{
	va_list args;

	va_start(args, format);
	pfw_problems_vadd(problems, line, at, format, args);
	va_end(args);
}

void pfw_problems_add_long(struct pfw_problems *problems, uint64_t line, uint64_t at,
			   uint64_t bytes)
{
	pfw_problems_add(problems, line, at,
			 "a line of %" PRIu64
			 " bytes: more than the %u that a line may have; left out",
			 bytes, PFW_SCAN_LINE_MAX);
}

void pfw_problems_free(struct pfw_problems *problems)
{
	free(problems->problem);
	*problems = (struct pfw_problems){ 0 };
}
