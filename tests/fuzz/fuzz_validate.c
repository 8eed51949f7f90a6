/* fuzz_validate.c - any bytes as a trace: no crash, bounded, and right about what is JSON.
 *
 * The bytes are read as a file (plain or gzip), and line by line: what the fast path takes, the
 * general one must take with the same fields and args; and jansson, which shares nothing with us, must
 * agree on what is a JSON object and on the values in it.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../entry_judge.h"
#include "store/read/scan.h"
#include "store/traces/ends.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes as a file: its lines are those that a split at '\n' gives. */
static void check_file(const uint8_t *data, size_t size)
{
	static int fd = -1;
	enum pfw_scan_result result;
	struct pfw_trace trace;
	struct pfw_scan scan;
	char path[64];
	uint64_t lines = 0, newlines = 0;
	bool plain = size < 2 || data[0] != 0x1f || data[1] != 0x8b;

	if (fd < 0)
		fd = memfd_create("trace", MFD_CLOEXEC);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert(pfw_scan_open(&scan, path) == 0);
	while ((result = pfw_scan_next(&scan)) != PFW_SCAN_END) {
		assert(result != PFW_SCAN_FAILED);
		lines += result == PFW_SCAN_LINE;
		if (result == PFW_SCAN_LINE && plain)
			assert(scan.at + scan.bytes <= size &&
			       memcmp(scan.text, data + scan.at, scan.bytes) == 0);
	}
	pfw_scan_close(&scan);
	for (size_t i = 0; i < size; i++)
		newlines += data[i] == '\n';
	if (plain)
		assert(lines == newlines + (size && data[size - 1] != '\n'));
	assert(pfw_trace_read(&trace, path) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *at = data, *end = data + size;

	check_file(data, size);
	check_text(data, size);
	while (at < end) {
		const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
		const uint8_t *stop = newline ? newline : end;

		check_line(at, (size_t)(stop - at));
		at = stop + 1;
	}
	return 0;
}
