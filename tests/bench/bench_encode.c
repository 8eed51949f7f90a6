/* bench_encode.c - what a record costs to write as a line, and a line to compress.
 *
 * bench_encode [N]: encode N records (10^6) of each kind, then compress the lines, and print the
 * least CPU ns of seven rounds.  bench_encode N KIND runs one kind once, for
 * `valgrind --tool=callgrind --toggle-collect=pfw_json_record`: instructions / N.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../json_world.h"
#include "common/format/gzip.h"

#define ROUNDS 7
#define BATCH_BYTES PFW_GZIP_TEXT_MAX
#define BATCH_RECORDS 1024 /* made ahead: making them is not what is measured */
#define TAIL_BYTES 64

struct bench {
	struct world world;
	uint32_t file;
	uint32_t name, category;
	char *text;	     /* what the writer would hand to gzip */
	uint64_t text_bytes; /* written in all */
	uint64_t member_bytes;
};

struct kind {
	const char *name;
	/* Make record number n, and its tail; return the tail's length. */
	size_t (*make)(const struct bench *bench, struct pfw_record *record, char *tail,
		       uint64_t n);
};

static bool hide_isal;

/* Stands before libc's, so that zlib can be timed where ISA-L is there too. */
void *dlopen(const char *name, int flags)
{
	void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");

	return hide_isal && name && !strncmp(name, "libisal", 7) ? NULL : real(name, flags);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static size_t make_pread(const struct bench *bench, struct pfw_record *record, char *tail,
			 uint64_t n)
{
	(void)tail;
	*record = world_pread(bench->file, n);
	return 0;
}

static size_t make_api(const struct bench *bench, struct pfw_record *record, char *tail, uint64_t n)
{
	(void)tail;
	*record = world_pread(0, n);
	record->template = WORLD_API;
	record->value[0] = bench->name | (uint64_t)bench->category << 32;
	record->value[1] = n + 1;
	record->value[2] = n & ~15ull;
	record->value[3] = 0;
	return 0;
}

/* A kernel: eleven args, three of them behind the first slot's values. */
static size_t make_pp(const struct bench *bench, struct pfw_record *record, char *tail, uint64_t n)
{
	const uint64_t rest[] = { 0,
				  1,
				  7,
				  100000 + n,
				  128 | 1ull << 31 | 1ull << 47,
				  256 | 1ull << 31 | 1ull << 47,
				  64,
				  49152 };

	*record = world_pread(0, n);
	record->template = WORLD_PP;
	record->value[0] = bench->name;
	record->value[1] =
		1 << PFW_PP_BIT_kind | 1 << PFW_PP_BIT_device_index | 1 << PFW_PP_BIT_context |
		1 << PFW_PP_BIT_stream | 1 << PFW_PP_BIT_correlation | 1 << PFW_PP_BIT_grid |
		1 << PFW_PP_BIT_block | 1 << PFW_PP_BIT_registers | 1 << PFW_PP_BIT_dynamic_smem;
	record->value[2] = 0;
	record->value[3] = 1;
	memcpy(tail, rest, sizeof(rest));
	return sizeof(rest);
}

static const struct kind kinds[] = {
	{ "pread", make_pread },
	{ "api", make_api },
	{ "pp", make_pp },
};

/* Records made ahead, with their tails. */
struct batch {
	struct pfw_record record[BATCH_RECORDS];
	char tail[BATCH_RECORDS][TAIL_BYTES];
	size_t tail_bytes[BATCH_RECORDS];
};

static void compress_text(struct bench *bench, struct pfw_gzip *gzip, size_t bytes)
{
	static char member[2 * BATCH_BYTES];
	struct pfw_gzip_summary summary = { 0 };
	int64_t got = pfw_gzip_member(gzip, member, sizeof(member), bench->text, bytes, &summary);

	if (got < 0)
		abort();
	bench->member_bytes += (uint64_t)got;
}

/* Encode count records and, where gzip is given, compress the lines; ns[] gets what each took. */
static void encode(struct bench *bench, const struct kind *kind, uint64_t count,
		   struct pfw_gzip *gzip, uint64_t ns[2])
{
	static struct batch batch;
	char *out = bench->text;

	ns[0] = ns[1] = 0;
	for (uint64_t done = 0; done < count; done += BATCH_RECORDS) {
		uint64_t start;

		for (uint64_t i = 0; i < BATCH_RECORDS; i++)
			batch.tail_bytes[i] =
				kind->make(bench, &batch.record[i], batch.tail[i], done + i);
		start = cpu_ns();
		for (uint64_t i = 0; i < BATCH_RECORDS; i++)
			out = pfw_json_record(&bench->world.json, out, &batch.record[i],
					      batch.tail[i], batch.tail_bytes[i], WORLD_TID);
		ns[0] += cpu_ns() - start;
		if (out - bench->text < (ptrdiff_t)BATCH_BYTES / 2 && done + BATCH_RECORDS < count)
			continue;
		bench->text_bytes += (uint64_t)(out - bench->text);
		start = cpu_ns();
		if (gzip)
			compress_text(bench, gzip, (size_t)(out - bench->text));
		ns[1] += cpu_ns() - start;
		out = bench->text;
	}
}

static void bench_open(struct bench *bench)
{
	memset(bench, 0, sizeof(*bench));
	world_open(&bench->world);
	bench->file = world_string(&bench->world, "/data/train/part-0001.bin", 25);
	bench->name = world_string(&bench->world, "forward", 7);
	bench->category = world_string(&bench->world, "app", 3);
	bench->text = malloc(2 * BATCH_BYTES);
	if (!bench->text)
		abort();
}

/* The least of a few rounds, by what dlopen finds. */
static void print_kind(const struct kind *kind, uint64_t count, struct pfw_gzip *gzip)
{
	uint64_t best[2] = { UINT64_MAX, UINT64_MAX }, ns[2];
	double line_bytes = 0, packed_bytes = 0, records = (double)count;

	for (int round = 0; round < ROUNDS; round++) {
		struct bench bench;

		bench_open(&bench);
		encode(&bench, kind, count, gzip, ns);
		for (int i = 0; i < 2; i++)
			best[i] = ns[i] < best[i] ? ns[i] : best[i];
		line_bytes = (double)bench.text_bytes / records;
		packed_bytes = (double)bench.member_bytes / records;
		free(bench.text);
		world_close(&bench.world);
	}
	printf("%-6s encode %6.1f ns to %5.1f bytes, compress %6.1f ns to %5.1f bytes (%s)\n",
	       kind->name, (double)best[0] / records, line_bytes, (double)best[1] / records,
	       packed_bytes, gzip ? pfw_gzip_library(gzip) : "no library");
}

/* All kinds, with ISA-L where it is found and with zlib. */
static void print_all(uint64_t count)
{
	for (int i = 0; i < 2; i++) {
		struct pfw_gzip *gzip = NULL;

		hide_isal = i;
		pfw_gzip_open(&gzip);
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			print_kind(&kinds[k], count, gzip);
		pfw_gzip_close(gzip);
	}
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000, ns[2];

	count -= count % BATCH_RECORDS;
	if (argc <= 2)
		print_all(count);
	for (size_t i = 0; argc > 2 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct bench bench;

		if (strcmp(argv[2], kinds[i].name))
			continue;
		bench_open(&bench);
		encode(&bench, &kinds[i], count, NULL, ns);
		printf("%" PRIu64 " bytes\n", bench.text_bytes);
	}
	return 0;
}
