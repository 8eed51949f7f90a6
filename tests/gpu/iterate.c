/* iterate.c - buffers of records through the probe, stepped by a real libcupti or by a stand-in's rule.
 *
 * iterate LIBRARY  the library's own iterator steps over records of each kind that we put there; what
 *                  comes out must be what went in.  No driver is needed (CUPTI 12.0 to 13.1).
 * iterate          the same with strides of 13.1, then what a record costs: to be noted, decoded and
 *                  written as a line; least of several rounds, CPU time.
 * iterate --replay FILE [LIBRARY]  buffers that tests/gpu/run recorded on a GPU; prints the lines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../json_world.h"
#include "recorder/gpu_records/buffers.h"
#include "recorder/gpu_records/decode.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/spool/strings.h"

#define ROUNDS 15
#define KINDS 64
#define NAME_BYTES 300 /* of a template's kernel; a plain one's is shorter */

static size_t strides[KINDS] = {
	[PFW_CUPTI_KIND_KERNEL] = 224,	   [PFW_CUPTI_KIND_MEMCPY] = 96,
	[PFW_CUPTI_KIND_MEMSET] = 88,	   [PFW_CUPTI_KIND_RUNTIME] = 40,
	[PFW_CUPTI_KIND_DRIVER] = 40,	   [PFW_CUPTI_KIND_EXTERNAL] = 24,
	[PFW_CUPTI_KIND_NAME] = 32,	   [PFW_CUPTI_KIND_SYNC] = 56,
	[PFW_CUPTI_KIND_MEMCPY_P2P] = 96,  [PFW_CUPTI_KIND_MEMORY] = 128,
	[PFW_CUPTI_KIND_OVERHEAD] = 56,	   [PFW_CUPTI_KIND_CUDA_EVENT] = 56,
	[PFW_CUPTI_KIND_MEMORY_POOL] = 80,
};
static char name[NAME_BYTES + 1];
static struct world world;
static uint8_t *filled; /* by fill() */
static size_t filled_bytes;
static char *text;

static void fail(const char *what)
{
	fprintf(stderr, "iterate: %s\n", what);
	exit(1);
}

/* ---- an iterator for where there is no library ---- */

static uint32_t own_next(uint8_t *buffer, size_t bytes, void **record)
{
	uint8_t *at = *record ? (uint8_t *)*record + strides[*(uint32_t *)*record] : buffer;

	if (at >= buffer + bytes)
		return PFW_CUPTI_MAX_LIMIT_REACHED;
	if (*(uint32_t *)at >= KINDS || !strides[*(uint32_t *)at])
		return PFW_CUPTI_INVALID_KIND;
	*record = at;
	return PFW_CUPTI_OK;
}

static uint32_t own_name(uint32_t domain, uint32_t cbid, const char **result)
{
	(void)cbid;
	*result = domain == PFW_CUPTI_DOMAIN_RUNTIME ? "cudaLaunchKernel_v7000" : "cuLaunchKernel";
	return PFW_CUPTI_OK;
}

/* How far apart the library has records of a kind: where the second one is in a buffer full of them. */
static void learn_stride(uint32_t kind)
{
	static uint64_t buffer[256];
	void *record = NULL;

	for (size_t i = 0; i < 256; i++)
		buffer[i] = kind;
	for (int i = 0; i < 2; i++)
		if (pfw_cupti_lib.calls.ActivityGetNextRecord((uint8_t *)buffer, sizeof(buffer),
							      &record))
			fail("the library does not step over two records");
	strides[kind] = (size_t)((uint8_t *)record - (uint8_t *)buffer);
}

/* ---- records ---- */

static uint8_t *put(uint8_t *at, const void *record, size_t bytes)
{
	size_t stride = strides[*(const uint32_t *)record];

	memset(at, 0x5a, stride);
	memcpy(at, record, bytes < stride ? bytes : stride);
	return at + stride;
}

static uint8_t *put_external(uint8_t *at, uint32_t correlation)
{
	struct pfw_cupti_external record = { .kind = PFW_CUPTI_KIND_EXTERNAL,
					     .external_kind = PFW_CUPTI_EXTERNAL_CUSTOM2,
					     .id = 1000000 + correlation,
					     .correlation = correlation };

	return put(at, &record, sizeof(record));
}

static uint8_t *put_call(uint8_t *at, uint32_t correlation, uint64_t start)
{
	struct pfw_cupti_api record = { .kind = PFW_CUPTI_KIND_RUNTIME,
					.cbid = 211,
					.start = start,
					.end = start + 4100,
					.process = 1,
					.thread = 77,
					.correlation = correlation };

	return put(at, &record, sizeof(record));
}

static uint8_t *put_kernel(uint8_t *at, uint32_t correlation, uint64_t start)
{
	struct pfw_cupti_kernel record = { .kind = PFW_CUPTI_KIND_KERNEL,
					   .registers = 40,
					   .start = start + 6000,
					   .end = start + 12345,
					   .at = { 0, 1, 7 },
					   .grid = { 1024, 1, 1 },
					   .block = { 128, 1, 1 },
					   .dynamic_smem = 16384,
					   .correlation = correlation,
					   .name = name };

	at = put(at, &record, sizeof(record));
	if (strides[PFW_CUPTI_KIND_KERNEL] > PFW_CUPTI_KERNEL_PRIORITY_AT)
		memset(at - strides[PFW_CUPTI_KIND_KERNEL] + PFW_CUPTI_KERNEL_PRIORITY_AT, 0, 4);
	return at;
}

static uint8_t *put_copy(uint8_t *at, uint32_t correlation, uint64_t start)
{
	struct pfw_cupti_memcpy record = { .kind = PFW_CUPTI_KIND_MEMCPY,
					   .copy_kind = 1,
					   .src_kind = 1,
					   .dst_kind = 3,
					   .bytes = 1 << 20,
					   .start = start + 500,
					   .end = start + 99999,
					   .at = { 0, 1, 7 },
					   .correlation = correlation };

	return put(at, &record, sizeof(record));
}

/* A full buffer: spans, calls and kernels, and a copy for each 16.  Return how many of each went in. */
struct counts {
	uint64_t kernels, calls, copies, records;
};

static void fill(struct counts *counts, uint32_t *correlation)
{
	uint8_t *buffer, *at;
	size_t bytes, most;

	pfw_cupti_requested_buffer(&buffer, &bytes, &most);
	for (at = buffer; at < buffer + bytes - 1024; ++*correlation) {
		uint64_t start = 1795230878627000000ull + *correlation * 5000ull;
		bool copy = *correlation % 16 == 0;

		at = put_external(at, *correlation);
		at = put_call(at, *correlation, start);
		at = copy ? put_copy(at, *correlation, start) : put_kernel(at, *correlation, start);
		counts->kernels += !copy;
		counts->copies += copy;
		counts->calls++;
		counts->records += 3;
	}
	filled = buffer;
	filled_bytes = (size_t)(at - buffer);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* What the writer does with a buffer.  Return the bytes of its lines. */
static size_t drain(struct counts *lines)
{
	uint8_t *buffer = pfw_cupti_buffer_oldest(UINT64_MAX);
	const struct pfw_record *record;
	char *out = text, *end;
	unsigned slots;

	if (!buffer)
		fail("no finished buffer");
	for (const void *at = buffer; at; at = pfw_cupti_noted_next(at)) {
		record = pfw_cupti_decode(at, &slots);
		if (!record)
			continue;
		end = pfw_json_record(&world.json, out, record, record + 1,
				      (slots - 1) * PFW_SLOT_BYTES, WORLD_PID);
		if (!end)
			fail("a record makes no line");
		lines->records++;
		out = end;
	}
	pfw_cupti_buffer_free(buffer);
	*out = '\0';
	return (size_t)(out - text);
}

static uint64_t count_text(const char *what)
{
	uint64_t count = 0;

	for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
		count++;
	return count;
}

static void check(void)
{
	struct counts in = { 0 }, out = { 0 };
	uint32_t correlation = 1;

	fill(&in, &correlation);
	pfw_cupti_completed_buffer(filled, filled_bytes);
	drain(&out);
	if (out.records != in.kernels + in.calls + in.copies ||
	    count_text("\"kind\":\"kernel\"") != in.kernels ||
	    count_text("\"kind\":\"runtime\"") != in.calls ||
	    count_text("\"name\":\"Memcpy HtoD (Pageable -> Device)\"") != in.copies ||
	    count_text("\"name\":\"cudaLaunchKernel\"") != in.calls)
		fail("what comes out is not what went in");
	for (uint32_t i = 1; i < correlation; i++) {
		char pair[80];

		snprintf(pair, sizeof(pair), "\"correlation\":%u,\"span\":%u,", i, 1000000 + i);
		if (i % 97 == 1 && count_text(pair) != 2) /* a sample: the text is long */
			fail("a kernel or its call has not its span");
	}
	printf("ok: %llu records, stride of a kernel %zu\n", (unsigned long long)in.records,
	       strides[PFW_CUPTI_KIND_KERNEL]);
}

/* The least of the rounds, for a record and for a line. */
static void bench(void)
{
	uint64_t best[2] = { UINT64_MAX, UINT64_MAX }, times[3];
	uint32_t correlation = 100000;
	struct counts in, out;
	size_t bytes = 0;

	for (int round = 0; round < ROUNDS; round++) {
		in = out = (struct counts){ 0 };
		fill(&in, &correlation);
		times[0] = cpu_ns();
		pfw_cupti_completed_buffer(filled, filled_bytes);
		times[1] = cpu_ns();
		bytes = drain(&out);
		times[2] = cpu_ns();
		for (int i = 0; i < 2; i++)
			best[i] = times[i + 1] - times[i] < best[i] ? times[i + 1] - times[i]
								    : best[i];
	}
	printf("names of %zu bytes: note %.1f ns a record, decode and write %.1f ns a line of %.0f "
	       "bytes; in all %.1f ns a record\n",
	       strlen(name), (double)best[0] / (double)in.records,
	       (double)best[1] / (double)out.records, (double)bytes / (double)out.records,
	       (double)(best[0] + best[1]) / (double)in.records);
}

/* ---- buffers of a real GPU ---- */

static uint32_t get_u32(FILE *file)
{
	uint32_t value = 0;

	if (fread(&value, sizeof(value), 1, file) != 1)
		return 0;
	return value;
}

/* The strides that versions were measured to have. */
static void strides_of(uint32_t version)
{
	bool old = version < 130000;

	strides[PFW_CUPTI_KIND_KERNEL] = old		    ? 208
					 : version < 130100 ? 216
					 : version < 130300 ? 224
					 : version < 130400 ? 232
							    : 248;
	strides[PFW_CUPTI_KIND_MEMCPY] = old ? 88 : 96;
	strides[PFW_CUPTI_KIND_SYNC] = strides[PFW_CUPTI_KIND_OVERHEAD] = old ? 40 : 56;
	strides[PFW_CUPTI_KIND_MEMORY] = old ? 120 : 128;
}

/* The pointers to names were those of another process: here are the names. */
static void read_names(FILE *file, uint8_t *buffer, size_t bytes)
{
	void *record = NULL;

	while (!pfw_cupti_lib.calls.ActivityGetNextRecord(buffer, bytes, &record)) {
		struct pfw_cupti_kernel *kernel = record;
		uint32_t length;
		char *own;

		if (kernel->kind == PFW_CUPTI_KIND_NAME)
			((struct pfw_cupti_name *)record)->name = NULL; /* not recorded */
		if (kernel->kind != PFW_CUPTI_KIND_KERNEL)
			continue;
		length = get_u32(file);
		own = calloc(1, length + 1u);
		if (!own || fread(own, 1, length, file) != length)
			fail("a name is cut");
		kernel->name = own;
	}
}

static void replay(FILE *file, bool own)
{
	char magic[8];
	uint8_t *buffer;
	size_t size, most;
	uint32_t bytes;
	struct counts out = { 0 };

	if (fread(magic, 8, 1, file) != 1 || memcmp(magic, "PFWGPU1\n", 8))
		fail("no recorded buffers");
	pfw_cupti_lib.version = get_u32(file);
	if (own)
		strides_of(pfw_cupti_lib.version);
	while ((bytes = get_u32(file)) != 0) {
		pfw_cupti_requested_buffer(&buffer, &size, &most);
		if (bytes > size || fread(buffer, bytes, 1, file) != 1)
			fail("a buffer is cut");
		read_names(file, buffer, bytes);
		pfw_cupti_completed_buffer(buffer, bytes);
		drain(&out);
		fputs(text, stdout);
	}
	if (!out.records)
		fail("no line");
}

static void set_up(void)
{
	static char segment[PFW_STRING_SEGMENT_BYTES] __attribute__((aligned(4096)));

	world_open(&world);
	pfw_strings_reset();
	pfw_strings_add_segment(segment, 0, PFW_STRING_SEGMENT_BYTES);
	world.json.strings = pfw_strings_view();
	pfw_cupti_decoding.template = WORLD_PP;
	memset(name, 'k', NAME_BYTES);
	text = malloc(16u << 20);
	if (!text || pfw_cupti_buffers_init(false))
		fail("no memory");
	pfw_cupti_lib.device_count = 1;
	pfw_cupti_lib.device[0] = (struct pfw_cuda_device){ .sms = 132,
							    .threads = 2048,
							    .major = 9,
							    .smem = 233472,
							    .registers = 65536,
							    .blocks = 32,
							    .reserved_smem = 1024 };
}

/* The library's iterator and its strides. */
static void take_library(const char *path)
{
	if (pfw_cupti_load(path) || pfw_cupti_lib.calls.GetVersion(&pfw_cupti_lib.version))
		fail("the library cannot be loaded");
	for (uint32_t kind = 0; kind < KINDS; kind++)
		if (strides[kind])
			learn_stride(kind);
}

int main(int argc, char **argv)
{
	bool replays = argc > 2 && !strcmp(argv[1], "--replay");
	const char *library = replays ? argv[3] : argv[1];
	FILE *file = replays ? fopen(argv[2], "rb") : NULL;

	set_up();
	pfw_cupti_lib.version = 130101;
	pfw_cupti_lib.calls.ActivityGetNextRecord = own_next;
	pfw_cupti_lib.calls.GetCallbackName = own_name;
	if (library)
		take_library(library);
	if (replays && !file)
		fail("the recorded buffers cannot be opened");
	if (replays) {
		replay(file, !library);
		return 0;
	}
	check();
	for (size_t bytes = NAME_BYTES; !library && bytes > 30; bytes /= 3) {
		name[bytes] = '\0';
		bench();
	}
	return 0;
}
