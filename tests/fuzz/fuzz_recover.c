/* fuzz_recover.c - any bytes as a spool: recovery must not crash, loop, or write a bad line; nor may
 * who reads the trace together with the spool.
 *
 * What says whose spool it is (host, boot, pid, path) is set to fit, or nothing behind it would be
 * reached; the rest is the input's.  The file is padded to whole pages, so that an input may leave
 * its zeros at the end out.
 */
#include <assert.h>
#include <stdint.h>

#include "../spool_builder.h"
#include "common/encode/encode.h"
#include "store/recover/recover.h"
#include "store/recover/unwritten.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILE_MAX (1u << 20)

static struct builder model; /* of this machine, and a process that is dead */
static char dir[64], place[66];

static void make_dir(void)
{
	strcpy(dir, "/dev/shm/pfw-fuzz-XXXXXX");
	if (!mkdtemp(dir)) {
		strcpy(dir, "/tmp/pfw-fuzz-XXXXXX");
		assert(mkdtemp(dir));
	}
	snprintf(place, sizeof(place), "%s/", dir);
	builder_init(&model, dir, false);
}

static void remove_dir(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command))
		fprintf(stderr, "fuzz_recover: %s is left behind\n", dir);
}

/* What must fit for the spool to be adopted at all. */
static void make_adoptable(struct pfw_spool_header *header)
{
	const struct pfw_spool_header *fit = builder_header(&model);

	header->magic = PFW_SPOOL_MAGIC;
	header->version = PFW_SPOOL_VERSION;
	header->header_bytes = PFW_SPOOL_HEADER_BYTES;
	header->state &= 1;
	header->pid = fit->pid;
	header->start_time = fit->start_time;
	memcpy(header->host, fit->host, sizeof(header->host));
	memcpy(header->boot_id, fit->boot_id, sizeof(header->boot_id));
	memcpy(pfw_spool_trace_path(header), model.trace, sizeof(model.trace));
}

/* The input as a spool; the length of what it begins with decides whether it is left as it is. */
static void write_spool(const uint8_t *data, size_t size)
{
	static char page[PFW_SPOOL_HEADER_BYTES];
	uint64_t end = (size + PFW_PAGE_BYTES - 1) / PFW_PAGE_BYTES * PFW_PAGE_BYTES;
	struct pfw_spool_header *header = (struct pfw_spool_header *)page;
	int fd = open(model.path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	assert(fd >= 0);
	assert(write(fd, data, size) == (ssize_t)size);
	if (size >= sizeof(page) && data[0] == 'P') {
		memcpy(page, data, sizeof(page));
		make_adoptable(header);
		assert(pwrite(fd, page, sizeof(page), 0) == (ssize_t)sizeof(page));
		if (header->end > end && header->end <= FILE_MAX)
			end = header->end;
	}
	assert(!ftruncate(fd, (off_t)end));
	close(fd);
}

/* A trace that is this process's by its first line, or bytes that are nobody's. */
static void write_trace(const uint8_t *data, size_t size)
{
	struct pfw_spool_header header;
	FILE *file = fopen(model.trace, "w");

	assert(file);
	memcpy(&header, data, sizeof(header));
	if (data[size - 1] & 2)
		fprintf(file,
			"{\"id\":1,\"name\":\"process\",\"pid\":%d,\"start_ts\":%llu.%03llu}\n",
			builder_header(&model)->pid, (unsigned long long)header.start_ns / 1000,
			(unsigned long long)header.start_ns % 1000);
	else
		fwrite(data, 1, 1000, file);
	fclose(file);
}

static char text[64u << 20];

static void check_lines(size_t bytes)
{
	char *line = text, *newline;

	while ((newline = memchr(line, '\n', (size_t)(text + bytes - line)))) {
		assert(pfw_json_valid(line, (size_t)(newline - line)));
		line = newline + 1;
	}
	assert(line == text + bytes);
}

static void check_trace(const char *path)
{
	int fd = open(path, O_RDONLY);
	ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	if (got > 1 && text[0] == 0x1f)
		return; /* gzip is another module's */
	check_lines((size_t)got);
}

/* What it says before anything is recovered. */
static void read_live(void)
{
	const char *const dirs[] = { dir, NULL };
	const struct pfw_spool_places spools = { .dir = dirs };
	char why[PFW_LIVE_WHY_BYTES];
	struct pfw_unwritten *live;
	size_t bytes = 0;
	ssize_t got;

	if (pfw_unwritten_open(&live, model.trace, &spools, why)) {
		assert(memchr(why, 0, sizeof(why)));
		return;
	}
	while ((got = pfw_unwritten_read(live, text + bytes, sizeof(text) - bytes)) > 0)
		bytes += (size_t)got;
	assert(!got && bytes < sizeof(text));
	check_lines(bytes);
	pfw_unwritten_close(live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pfw_recovery result;

	if (!model.bytes) {
		make_dir();
		atexit(remove_dir);
	}
	if (size > FILE_MAX)
		return 0;
	write_spool(data, size);
	if (size >= PFW_SPOOL_HEADER_BYTES && data[size - 1] & 1)
		write_trace(data, size);
	read_live();
	pfw_recover_spool(model.path, place, &result);
	assert(result.status <= PFW_RECOVER_BAD);
	assert(memchr(result.why, 0, sizeof(result.why)));
	assert(result.status == PFW_RECOVER_DONE || !result.recovered);
	if (result.status == PFW_RECOVER_DONE && !result.cut_bytes)
		check_trace(result.trace);
	if (result.status == PFW_RECOVER_DONE)
		unlink(result.trace);
	unlink(model.trace);
	unlink(model.path);
	return 0;
}
