/* fuzz_blocks.c - any bytes as a trace that is read block by block, by several threads as every command
 * does: no crash, bounded, and the same lines as reading it in order gives.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/line/hash.h"
#include "store/pass/pass.h"
#include "store/read/scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The events, in whatever order. */
struct seen {
	uint64_t lines, checksum;
	uint64_t problems;
};

static char path[] = "/dev/shm/fuzz_blocks-XXXXXX.pfw.gz";

static void remove_path(void)
{
	unlink(path);
}

static void write_trace(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0) {
		fd = mkstemps(path, 7);
		assert(fd >= 0);
		atexit(remove_path);
	}
	assert(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
}

static void say(void *user, const char *name, const char *why)
{
	(void)user;
	fprintf(stderr, "%s: %s\n", name, why);
	abort();
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	struct seen *seen = calloc(1, sizeof(*seen));
	struct pfw_pass_lines lines;

	(void)user;
	(void)worker;
	assert(seen);
	pfw_pass_lines_init(&lines, block);
	while (pfw_pass_lines_next(&lines)) {
		assert(lines.text >= block->text &&
		       lines.text + lines.bytes <= block->text + block->bytes);
		seen->lines++;
		seen->checksum += pfw_linehash(lines.text, lines.bytes);
	}
	block->result = seen;
	return 0;
}

static int done(void *user, struct pfw_pass_block *block)
{
	const struct seen *part = block->result;
	struct seen *seen = user;

	seen->lines += part->lines;
	seen->checksum += part->checksum;
	return 0;
}

static void problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct seen *seen = user;

	assert(file == 0 && problem->text[0]);
	/* A line that lacks something is still a line. */
	if (problem->text[0] != '`' && strncmp(problem->text, "no `", 4) != 0)
		seen->problems++;
}

static int point(void *user, size_t file, const struct pfw_point *point)
{
	(void)user;
	(void)file;
	assert(point->bits < 8 && point->window_bytes <= PFW_POINT_WINDOW);
	return 0;
}

static struct seen by_blocks(void)
{
	char *argument = path;
	struct pfw_traces traces;
	struct seen seen = { 0 };
	struct pfw_pass pass = { .traces = &traces,
				 .jobs = 2,
				 .user = &seen,
				 .work = work,
				 .done = done,
				 .problem = problem,
				 .point = point };

	assert(pfw_traces_open(&traces, &argument, 1, false, say, NULL) == 0);
	assert(pfw_pass_run(&pass) == 0);
	pfw_traces_close(&traces);
	return seen;
}

static struct seen in_order(void)
{
	enum pfw_scan_result result;
	struct seen seen = { 0 };
	struct pfw_scan scan;

	assert(pfw_scan_open(&scan, path) == 0);
	while ((result = pfw_scan_next(&scan)) != PFW_SCAN_END) {
		assert(result != PFW_SCAN_FAILED);
		if (result == PFW_SCAN_PROBLEM || scan.entry.kind == PFW_ENTRY_BAD) {
			seen.problems++;
		} else if (scan.entry.kind == PFW_ENTRY_EVENT) {
			seen.lines++;
			seen.checksum += pfw_linehash(scan.text, scan.bytes);
		}
	}
	pfw_scan_close(&scan);
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen blocks, order;

	write_trace(data, size);
	blocks = by_blocks();
	order = in_order();
	/* Members that end within lines are whole only where they are read in order. */
	assert(blocks.problems || !order.problems);
	if (!blocks.problems)
		assert(blocks.lines == order.lines && blocks.checksum == order.checksum);
	return 0;
}
