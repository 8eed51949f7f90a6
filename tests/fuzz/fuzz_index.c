/* fuzz_index.c - a damaged index beside a good trace: refused or read, within bounds, never a crash.
 *
 * The first byte says of which trace: 0 text, 1 a foreign gzip file; then come patches of its index as
 * the real writer has made it: a place (2 bytes, of 64 KiB), how many bytes (1), these bytes.  2 and 3:
 * what follows is the whole index.  What is read then goes the way that every command goes.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "store/index/build.h"
#include "store/index/index.h"
#include "store/read/fetch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PATCH_HEAD 3u

/* Of text, and of a foreign gzip file. */
static struct kind {
	char trace[64], index[72];
	uint8_t *good; /* the index as it was written */
	size_t bytes;
} kinds[2];

static char directory[] = "/dev/shm/fuzz_index-XXXXXX";

/* ---- the traces, and their indexes ---- */

static void remove_all(void)
{
	for (int i = 0; i < 2; i++) {
		unlink(kinds[i].index);
		unlink(kinds[i].trace);
	}
	rmdir(directory);
}

/* Some lines of each kind that an index has a table for, and so much text that there are blocks and
 * points. */
static char *make_text(size_t least, size_t *bytes)
{
	static const char *const names[] = { "open", "read", "write", "fsync" };
	char *text = malloc(least + 8192), *out = text;

	assert(text);
	out += sprintf(
		out,
		"{\"id\":0,\"name\":\"process\",\"cat\":\"pfw\",\"pid\":7,\"tid\":7,\"ts\":1.0,"
		"\"ph\":\"M\",\"args\":{\"format\":1,\"run\":\"r\",\"host\":\"h\",\"rank\":3,"
		"\"cmd\":\"x\"}}\n");
	for (int i = 1; (size_t)(out - text) < least; i++)
		out += sprintf(
			out,
			"{\"id\":%d,\"name\":\"%s\",\"cat\":\"POSIX\",\"pid\":7,\"tid\":%d,"
			"\"ts\":%d.500,\"dur\":%d.125,\"ph\":\"X\",\"args\":{\"fname\":\"/f%d\","
			"\"ret\":%d,\"x\":\"%*d\"}}\n",
			i, names[i % 4], 7 + i % 2, i * 10, i % 9, i % 5, i % 100, 6000, i);
	out += sprintf(out,
		       "{\"id\":0,\"name\":\"ProfilerStep#1\",\"cat\":\"PP\",\"pid\":7,\"tid\":7,"
		       "\"ts\":1.0,\"dur\":9,\"ph\":\"X\",\"args\":{\"kind\":\"step\"}}\n"
		       "{\"id\":0,\"name\":\"lost\",\"cat\":\"pfw\",\"pid\":7,\"tid\":7,\"ts\":2.0,"
		       "\"ph\":\"M\",\"args\":{\"reason\":\"full\",\"count\":3}}\n"
		       "{\"id\":0,\"name\":\"end\",\"cat\":\"pfw\",\"pid\":7,\"tid\":7,\"ts\":3.0,"
		       "\"ph\":\"M\",\"args\":{\"events\":9,\"lost\":3,\"reason\":\"exit\"}}\n");
	*bytes = (size_t)(out - text);
	return text;
}

static void say(void *user, const char *path, const char *why)
{
	(void)user;
	fprintf(stderr, "%s: %s\n", path, why);
	abort();
}

static void built(void *user, size_t file, const struct pfw_index_built *built)
{
	(void)user;
	(void)file;
	assert(!built->error && !built->problems);
}

static void load_good(struct kind *kind)
{
	char *argument = kind->trace;
	struct pfw_traces traces;
	const struct pfw_index_build build = { .traces = &traces, .jobs = 1, .built = built };
	FILE *in;

	assert(pfw_traces_open(&traces, &argument, 1, false, say, NULL) == 0);
	assert(pfw_index_build(&build) == 0);
	pfw_traces_close(&traces);
	in = fopen(kind->index, "rb");
	assert(in && fseek(in, 0, SEEK_END) == 0);
	kind->bytes = (size_t)ftell(in);
	kind->good = malloc(kind->bytes);
	rewind(in);
	assert(kind->good && fread(kind->good, 1, kind->bytes, in) == kind->bytes);
	fclose(in);
}

static void make_kinds(void)
{
	size_t bytes;
	char *text = make_text(9 << 20, &bytes);
	gzFile packed;
	FILE *plain;

	assert(mkdtemp(directory));
	atexit(remove_all);
	for (int i = 0; i < 2; i++) {
		snprintf(kinds[i].trace, sizeof(kinds[i].trace), "%s/t.pfw%s", directory,
			 i ? ".gz" : "");
		snprintf(kinds[i].index, sizeof(kinds[i].index), "%s.idx", kinds[i].trace);
	}
	packed = gzopen(kinds[1].trace, "wb6");
	assert(packed && gzwrite(packed, text, (unsigned)bytes) == (int)bytes);
	assert(gzclose(packed) == Z_OK);
	free(text);
	text = make_text(3 << 20, &bytes);
	plain = fopen(kinds[0].trace, "wb");
	assert(plain && fwrite(text, 1, bytes, plain) == bytes && fclose(plain) == 0);
	free(text);
	load_good(&kinds[0]);
	load_good(&kinds[1]);
}

/* ---- reading one ---- */

static int fine(int error)
{
	assert(error <= 0);
	return error;
}

static bool any_name(void *user, const char *cat, size_t cat_bytes, const char *name,
		     size_t name_bytes, char ph)
{
	(void)user;
	(void)ph;
	return cat_bytes == 5 && memcmp(cat, "POSIX", 5) == 0 && name_bytes && name[0] == 'r';
}

static bool any_file(void *user, const char *name, size_t bytes)
{
	(void)user;
	return bytes == 3 && name[2] == '1';
}

static bool any_thread(void *user, uint64_t pid, uint64_t tid)
{
	(void)user;
	return pid == 7 && tid == 8;
}

/* Blocks lie where the index says that they do. */
static void fetch(const struct kind *kind, const struct pfw_blocks *blocks)
{
	int fd = open(kind->trace, O_RDONLY);
	struct pfw_fetch fetch = { 0 };
	struct pfw_fetched fetched = { 0 };

	assert(fd >= 0);
	for (size_t i = 0; blocks->count && i < 2; i++) {
		const struct pfw_block *block = &blocks->block[i ? blocks->count - 1 : 0];
		struct pfw_problems problems = { 0 };

		if (blocks->layout == PFW_LAYOUT_STREAM)
			fine(pfw_fetch_streamed(&fetch, kind->trace, &blocks->points, block,
						&fetched, &problems));
		else
			fine(pfw_fetch_block(&fetch, kind->trace, fd, blocks->layout, block,
					     &fetched, &problems));
		assert(fetched.begin <= fetched.text.bytes);
		pfw_problems_free(&problems);
	}
	pfw_buffer_free(&fetched.text);
	pfw_fetch_free(&fetch);
	close(fd);
}

static int read_blocks(struct pfw_index *index, const struct kind *kind)
{
	struct pfw_blocks blocks;
	int error;

	assert(pfw_blocks_find(&blocks, kind->trace) == 0);
	error = fine(pfw_index_blocks(index, &blocks));
	if (!error) {
		assert(blocks.count == pfw_index_meta(index)->blocks);
		fetch(kind, &blocks);
	}
	pfw_blocks_free(&blocks);
	return error;
}

/* Everything that is asked of an index.  0, or the first that could not be had. */
static int read_all(struct pfw_index *index, const struct kind *kind)
{
	const struct pfw_index_filter filter = {
		.name = any_name, .file = any_file, .thread = any_thread, .least_dur_ns = 2000
	};
	struct pfw_index_top top = { .order = PFW_INDEX_BY_BYTES, .limit = 3 };
	struct pfw_summary total, files;
	uint64_t blocks = pfw_index_meta(index)->blocks;
	int error = read_blocks(index, kind), result;
	/* Whoever asks has blocks that could be read, and so are no more than the trace can have. */
	uint8_t *bits = error || blocks > 1 << 24 ? NULL : calloc(1, blocks + 1);

	assert(pfw_summary_init(&total) == 0 && pfw_summary_init(&files) == 0);
	if (bits) {
		result = fine(pfw_index_match(index, &filter, bits, NULL));
		error = error ? error : result;
		for (uint64_t i = 0; i < blocks; i++)
			assert(bits[i] <= 1);
		result = fine(pfw_index_block_totals(index, bits, &total));
		error = error ? error : result;
	}
	result = fine(pfw_index_totals(index, PFW_INDEX_ALL, &total));
	error = error ? error : result;
	result = fine(pfw_index_top_files(&(struct pfw_indexes){ .count = 1, .open = { index } },
					  &top, &files));
	error = error ? error : result;
	pfw_summary_release(&total);
	pfw_summary_release(&files);
	free(bits);
	return error;
}

static int read_index(const struct kind *kind)
{
	struct pfw_index *index;
	char why[128];
	int error;

	memset(why, 'x', sizeof(why));
	error = fine(pfw_index_open(&index, kind->trace, why, sizeof(why)));
	if (error) {
		assert(memchr(why, '\0', sizeof(why)) && why[0] && !strchr(why, '\n'));
		return error;
	}
	error = read_all(index, kind);
	pfw_index_close(index);
	return error;
}

/* ---- damaging it ---- */

static void write_index(const struct kind *kind, const uint8_t *data, size_t size)
{
	FILE *out = fopen(kind->index, "wb");

	assert(out && fwrite(data, 1, size, out) == size && fclose(out) == 0);
}

static void patch(const struct kind *kind, const uint8_t *data, size_t size)
{
	uint8_t *bad = malloc(kind->bytes);

	assert(bad);
	memcpy(bad, kind->good, kind->bytes);
	while (size >= PATCH_HEAD) {
		size_t at = (size_t)(data[0] | data[1] << 8) % kind->bytes;
		size_t bytes = data[2], room = kind->bytes - at;

		data += PATCH_HEAD;
		size -= PATCH_HEAD;
		bytes = bytes < size ? bytes : size;
		memcpy(bad + at, data, bytes < room ? bytes : room);
		data += bytes;
		size -= bytes;
	}
	write_index(kind, bad, kind->bytes);
	free(bad);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct kind *kind;
	int error;

	if (!kinds[0].bytes)
		make_kinds();
	if (!size)
		return 0;
	kind = &kinds[data[0] & 1];
	if (data[0] & 2)
		write_index(kind, data + 1, size - 1);
	else
		patch(kind, data + 1, size - 1);
	error = read_index(kind);
	/* What nobody has damaged can be read. */
	assert(error == 0 || size > 1 || data[0] & 2);
	return 0;
}
