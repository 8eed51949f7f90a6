/* test_gzip.c - members of both libraries are read back by zlib, gzip and Python. */
#include "common/format/gzip.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "json_world.h"

static const char *hidden_library; /* dlopen() below does not find it */

/* Stands before libc's: one test must see each library alone. */
void *dlopen(const char *name, int flags)
{
	void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");

	if (name && hidden_library && (!*hidden_library || !strcmp(name, hidden_library)))
		return NULL;
	return real(name, flags);
}

/* With each library that there is: NULL hides none, so that ISA-L is used where it is found. */
static const char *const hidden[] = { NULL, "libisal.so.2" };

static struct pfw_gzip *open_without(const char *library)
{
	struct pfw_gzip *gzip = NULL;

	hidden_library = library;
	assert_int_equal(pfw_gzip_open(&gzip), 0);
	hidden_library = NULL;
	assert_non_null(gzip);
	return gzip;
}

/* ---- texts ---- */

/* Lines as a program with a few open files makes them. */
static size_t make_trace(char *text, size_t bytes)
{
	static const char *const names[] = { "/data/train/part-0001.bin",
					     "/data/train/part-0002.bin",
					     "/home/user/.cache/model/weights.safetensors" };
	struct world world;
	uint32_t files[3];
	size_t used = 0;
	uint64_t n = 0;

	world_open(&world);
	for (int i = 0; i < 3; i++)
		files[i] = world_string(&world, names[i], strlen(names[i]));
	while (bytes - used > PFW_JSON_LINE_MAX + PFW_JSON_SLACK) {
		struct pfw_record record = world_pread(files[n * 7919 % 3], n);

		record.value[1] = 3 + n % 5;
		record.dur += n * 2654435761u % 4096;
		record.t0 += n * 40503 % 512;
		n++;
		used = (size_t)(pfw_json_record(&world.json, text + used, &record, "", 0,
						8979 + n % 4) -
				text);
	}
	world_close(&world);
	return used;
}

static size_t make_noise(char *text, size_t bytes)
{
	uint64_t state = 88172645463325252u;

	for (size_t i = 0; i < bytes; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		text[i] = (char)(state >> 32);
	}
	return bytes;
}

/* ---- reading back ---- */

/* Inflate one member with zlib; the bytes of it that were used. */
static size_t inflate_member(const unsigned char *member, size_t bytes, char *text, size_t *got)
{
	z_stream stream = { .next_in = (Bytef *)member,
			    .avail_in = (uInt)bytes,
			    .next_out = (Bytef *)text,
			    .avail_out = (uInt)*got };

	assert_int_equal(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	*got = stream.total_out;
	bytes = stream.total_in;
	inflateEnd(&stream);
	return bytes;
}

static void check_member(struct pfw_gzip *gzip, const char *text, size_t text_bytes)
{
	struct pfw_gzip_summary in = { .lines = 7,
				       .least_ns = 1795230878627639123,
				       .greatest_ns = UINT64_MAX - 1 },
				out;
	size_t room = pfw_gzip_bound(text_bytes), got = text_bytes + 1;
	unsigned char *member = malloc(room);
	char *back = malloc(got);
	int64_t bytes = pfw_gzip_member(gzip, member, room, text, text_bytes, &in);

	assert_true(bytes > 0 && (size_t)bytes <= room);
	assert_int_equal(in.member_bytes, bytes);
	assert_int_equal(inflate_member(member, (size_t)bytes, back, &got), bytes);
	assert_int_equal(got, text_bytes);
	assert_memory_equal(back, text, text_bytes);
	for (size_t cut = 0; cut < PFW_GZIP_HEADER_BYTES; cut++)
		assert_int_equal(pfw_gzip_read_summary(member, cut, &out), -EAGAIN);
	assert_int_equal(pfw_gzip_read_summary(member, PFW_GZIP_HEADER_BYTES, &out), 0);
	assert_false(out.damaged);
	assert_memory_equal(&in, &out, offsetof(struct pfw_gzip_summary, damaged));
	/* gzip's own CRC is not of the header: each bit of it counts in ours. */
	for (size_t bit = 8 * PFW_GZIP_SIGNATURE_BYTES; bit < 8 * PFW_GZIP_HEADER_BYTES; bit++) {
		member[bit / 8] ^= (unsigned char)(1 << bit % 8);
		assert_int_equal(pfw_gzip_read_summary(member, PFW_GZIP_HEADER_BYTES, &out), 0);
		assert_true(out.damaged);
		member[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	free(member);
	free(back);
}

static void test_members(void **state)
{
	static const size_t sizes[] = {
		0, 1, 2, 100, 65535, 65536, PFW_GZIP_TEXT_MAX, 3 * PFW_GZIP_TEXT_MAX + 17
	};
	char *trace = malloc(4 * PFW_GZIP_TEXT_MAX), *noise = malloc(4 * PFW_GZIP_TEXT_MAX);
	size_t trace_bytes = make_trace(trace, 4 * PFW_GZIP_TEXT_MAX);

	(void)state;
	make_noise(noise, 4 * PFW_GZIP_TEXT_MAX);
	for (int i = 0; i < 2; i++) {
		struct pfw_gzip *gzip = open_without(hidden[i]);

		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			assert_true(sizes[k] < trace_bytes);
			check_member(gzip, trace, sizes[k]);
			check_member(gzip, noise, sizes[k]);
		}
		for (size_t size = 1; size < 3000; size += 37) /* each from a clean state */
			check_member(gzip, trace + size, size);
		pfw_gzip_close(gzip);
	}
	free(trace);
	free(noise);
}

/* Nothing is in it but its length, whatever that is. */
static void test_pads(void **state)
{
	struct pfw_gzip_summary summary;
	unsigned char pad[5000];
	char back[8];
	size_t got;

	(void)state;
	for (size_t bytes = PFW_GZIP_PAD_LEAST; bytes <= sizeof(pad); bytes++) {
		memset(pad, 0xff, sizeof(pad));
		pfw_gzip_pad(pad, bytes);
		got = sizeof(back);
		assert_int_equal(inflate_member(pad, sizeof(pad), back, &got), bytes);
		assert_int_equal(got, 0);
		assert_int_equal(pfw_gzip_read_summary(pad, bytes, &summary), 0);
		assert_int_equal(summary.member_bytes, bytes);
		assert_int_equal(summary.lines, 0);
		assert_true(bytes == sizeof(pad) || pad[bytes] == 0xff);
	}
}

/* Once or more than once, by as little as a byte. */
static void test_longer_members(void **state)
{
	static const size_t by[] = { 1, 2, 50, 3000, 1 };
	struct pfw_gzip *gzip = open_without("none");
	struct pfw_gzip_summary in = { .lines = 1, .least_ns = 5, .greatest_ns = 6 }, out;
	static const char text[] = "{\"a\":1}\n{\"a\":2}\n";
	unsigned char member[8192];
	char back[64];
	size_t bytes, got;

	(void)state;
	bytes = (size_t)pfw_gzip_member(gzip, member, sizeof(member), text, sizeof(text), &in);
	for (unsigned i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
		size_t longer = pfw_gzip_lengthen(member, bytes, by[i]);

		assert_int_equal(longer, bytes + by[i]);
		bytes = longer;
		got = sizeof(back);
		assert_int_equal(inflate_member(member, bytes, back, &got), bytes);
		assert_int_equal(got, sizeof(text));
		assert_memory_equal(back, text, got);
		assert_int_equal(pfw_gzip_read_summary(member, bytes, &out), 0);
		in.member_bytes = (uint32_t)bytes;
		assert_memory_equal(&in, &out, sizeof(in));
	}
	pfw_gzip_close(gzip);
}

static void test_libraries(void **state)
{
	struct pfw_gzip *gzip = open_without("libisal.so.2");
	char zlib[64] = "zlib ";

	(void)state;
	assert_string_equal(pfw_gzip_library(gzip), strcat(zlib, zlibVersion()));
	pfw_gzip_close(gzip);
	hidden_library = ""; /* hides all */
	gzip = (struct pfw_gzip *)&zlib;
	assert_int_equal(pfw_gzip_open(&gzip), -ENOENT);
	hidden_library = NULL;
	assert_ptr_equal(gzip, &zlib);
	gzip = open_without(NULL);
	assert_true(!strncmp(pfw_gzip_library(gzip), "ISA-L", 5) ||
		    !strncmp(pfw_gzip_library(gzip), "zlib ", 5));
	pfw_gzip_close(gzip);
	pfw_gzip_close(NULL);
}

/* Too little room is said, whatever the room is, and the next member is whole again. */
static void test_no_room(void **state)
{
	static char text[50000];
	static unsigned char member[sizeof(text) * 2];
	struct pfw_gzip_summary summary = { 0 };

	(void)state;
	make_noise(text, sizeof(text));
	for (int i = 0; i < 2; i++) {
		struct pfw_gzip *gzip = open_without(hidden[i]);

		for (size_t room = 0; room < sizeof(text); room += 997)
			assert_int_equal(pfw_gzip_member(gzip, member, room, text, sizeof(text),
							 &summary),
					 -ENOSPC);
		check_member(gzip, text, sizeof(text));
		pfw_gzip_close(gzip);
	}
}

/* What is written is no larger than gzip -1 makes it. */
static void test_size(void **state)
{
	char *text = malloc(PFW_GZIP_TEXT_MAX + 2 * PFW_JSON_LINE_MAX);
	size_t bytes = make_trace(text, PFW_GZIP_TEXT_MAX + PFW_JSON_LINE_MAX);
	size_t room = pfw_gzip_bound(bytes);
	unsigned char *member = malloc(room);
	struct pfw_gzip_summary summary = { 0 };
	uLongf plain_bytes = room;

	(void)state;
	assert_int_equal(compress2(member, &plain_bytes, (Bytef *)text, bytes, 1), Z_OK);
	plain_bytes += 18 - 6; /* gzip's head and trailer instead of zlib's */
	for (int i = 0; i < 2; i++) {
		struct pfw_gzip *gzip = open_without(hidden[i]);
		int64_t got = pfw_gzip_member(gzip, member, room, text, bytes, &summary);

		assert_true(got > 0);
		/* The summary is all that we add; ISA-L more than makes up for it. */
		assert_true((size_t)got <= plain_bytes + PFW_GZIP_EXTRA_BYTES + 6);
		if (!strncmp(pfw_gzip_library(gzip), "ISA-L", 5))
			assert_true((size_t)got <= plain_bytes);
		pfw_gzip_close(gzip);
	}
	free(text);
	free(member);
}

/* Members one behind the other are one file, to gzip and to Python. */
static void test_other_readers(void **state)
{
	static const char *const readers[] = {
		"gzip -t %s.gz && gzip -dc %s.gz | cmp - %s",
		"/usr/bin/python3 -c 'import gzip, sys; "
		"sys.exit(gzip.open(sys.argv[1]).read() != open(sys.argv[3], \"rb\").read())' %s.gz %s %s",
	};
	char path[] = "/tmp/pfw-test-gzip-XXXXXX", packed[64], command[512];
	size_t size = 3 * PFW_GZIP_TEXT_MAX, bytes;
	char *text = malloc(size), *member = malloc(pfw_gzip_bound(size));
	FILE *file, *gz;

	(void)state;
	close(mkstemp(path));
	bytes = make_trace(text, size);
	snprintf(packed, sizeof(packed), "%s.gz", path);
	for (int i = 0; i < 2; i++) {
		struct pfw_gzip *gzip = open_without(hidden[i]);

		file = fopen(path, "w");
		gz = fopen(packed, "w");
		fwrite(text, 1, bytes, file);
		for (size_t done = 0; done < bytes;) {
			struct pfw_gzip_summary summary = { 0 };
			size_t part = bytes - done < 300000 ? bytes - done : 300000;
			int64_t got = pfw_gzip_member(gzip, member, pfw_gzip_bound(part),
						      text + done, part, &summary);

			got = (int64_t)pfw_gzip_lengthen(member, (size_t)got, 1 + done % 7);
			fwrite(member, 1, (size_t)got, gz);
			pfw_gzip_pad(member, PFW_GZIP_PAD_LEAST + done % 4096);
			fwrite(member, 1, PFW_GZIP_PAD_LEAST + done % 4096, gz);
			done += part;
		}
		fclose(file);
		fclose(gz);
		for (int k = 0; k < 2; k++) {
			snprintf(command, sizeof(command), readers[k], path, path, path);
			assert_int_equal(system(command), 0);
		}
		pfw_gzip_close(gzip);
	}
	unlink(path);
	unlink(packed);
	free(text);
	free(member);
}

static void test_foreign_headers(void **state)
{
	/* Another field before ours, and ours of a wrong length; no field; no gzip at all. */
	static const unsigned char two[] = { 0x1f, 0x8b, 8, 4, 0, 0, 0,	  0,   4,  3,	34, 0,
					     'A',  'B',	 2, 0, 9, 9, 'P', 'F', 24, 0,	1,  0,
					     0,	   0,	 2, 0, 0, 0, 3,	  0,   0,  0,	0,  0,
					     0,	   0,	 4, 0, 0, 0, 0,	  0,   0,  0x80 };
	static const unsigned char wrong[] = { 0x1f, 0x8b, 8, 4,   0,	0, 0, 0, 4,
					       3,    6,	   0, 'P', 'F', 2, 0, 1, 2 };
	static const unsigned char beyond[] = { 0x1f, 0x8b, 8, 4,   0,	 0,  0, 0, 4,
						3,    6,    0, 'P', 'F', 24, 0, 1, 2 };
	static const unsigned char plain[] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 3, 3, 0 };
	struct pfw_gzip_summary summary;

	(void)state;
	assert_int_equal(pfw_gzip_read_summary(two, sizeof(two), &summary), 0);
	assert_false(summary.damaged); /* made before there was a CRC */
	assert_int_equal(summary.member_bytes, 1);
	assert_int_equal(summary.lines, 2);
	assert_true(summary.least_ns == 3 && summary.greatest_ns == (4 | 1ull << 63));
	assert_int_equal(pfw_gzip_read_summary(two, sizeof(two) - 1, &summary), -EAGAIN);
	assert_int_equal(pfw_gzip_read_summary(wrong, sizeof(wrong), &summary), -ENOENT);
	assert_int_equal(pfw_gzip_read_summary(beyond, sizeof(beyond), &summary), -ENOENT);
	assert_int_equal(pfw_gzip_read_summary(plain, sizeof(plain), &summary), -ENOENT);
	assert_int_equal(pfw_gzip_read_summary("{\"id\":0", 7, &summary), -ENOENT);
	assert_int_equal(pfw_gzip_read_summary("", 0, &summary), -EAGAIN);
}

#if defined(__x86_64__)
#include <cpuid.h>

/* The bits of the registers' parts that are in use: XGETBV with ECX = 1. */
static uint32_t parts_in_use(void)
{
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
	return low;
}

static void test_clean_vectors(void **state)
{
	static char text[100000];
	static unsigned char member[sizeof(text) * 2];
	struct pfw_gzip_summary summary = { 0 };
	struct pfw_gzip *gzip;
	unsigned int a, b, c, d;

	(void)state;
	if (!__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || !(a & 4) || getenv("VALGRIND_LIB"))
		skip(); /* this processor cannot tell */
	gzip = open_without(NULL);
	assert_true(pfw_gzip_member(gzip, member, sizeof(member), text, sizeof(text), &summary) >
		    0);
	assert_int_equal(parts_in_use() & (1u << 2 | 1u << 6), 0); /* upper halves of ymm, zmm */
	pfw_gzip_close(gzip);
}
#endif

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_pads),
		cmocka_unit_test(test_longer_members),
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_other_readers),
		cmocka_unit_test(test_foreign_headers),
#if defined(__x86_64__)
		cmocka_unit_test(test_clean_vectors),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
