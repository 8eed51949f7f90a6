/* recover_world.h - a directory with a killed process's spool and trace, and the model that the
 * recovered trace is compared with: each event exactly once.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <zlib.h>

#include "common/encode/encode.h"
#include "common/format/gzip.h"
#include "spool_builder.h"
#include "store/recover/recover.h"

#define SEQS 65536u

struct world {
	char dir[64], place[66]; /* the same with a slash at its end */
	struct builder builder;
	struct pfw_recovery result;
	uint8_t seen[SEQS]; /* of the event with this sequence number, in the trace */
	uint64_t events, lines, ends;
	uint64_t next_id;
	char *text;
};

static inline int make_world(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	strcpy(world->dir, "/tmp/pfw-recover-XXXXXX");
	assert_non_null(mkdtemp(world->dir));
	snprintf(world->place, sizeof(world->place), "%s/", world->dir);
	*state = world;
	return 0;
}

static inline int free_world(void **state)
{
	struct world *world = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", world->dir);
	assert_int_equal(system(command), 0);
	builder_release(&world->builder);
	free(world->text);
	free(world);
	return 0;
}

static inline uint64_t file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

static inline bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

/* ---- the good part of a trace, as its writer left it ---- */

/* Write `text` as the writer would: one member where compressed.  Return its bytes in the file. */
static inline uint64_t write_good(struct world *world, const char *path, const char *text)
{
	bool compressed = builder_header(&world->builder)->compressed;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	struct pfw_gzip_summary summary = { .lines = 1 };
	size_t room = pfw_gzip_bound(strlen(text));
	char *member = malloc(room);
	int64_t bytes = (int64_t)strlen(text);
	struct pfw_gzip *gzip;

	assert_true(fd >= 0);
	memcpy(member, text, room < (size_t)bytes ? room : (size_t)bytes);
	if (compressed) {
		assert_int_equal(pfw_gzip_open(&gzip), 0);
		bytes = pfw_gzip_member(gzip, member, room, text, strlen(text), &summary);
		assert_true(bytes > 0);
		pfw_gzip_close(gzip);
	}
	assert_int_equal(write(fd, member, (size_t)bytes), bytes);
	close(fd);
	free(member);
	return (uint64_t)bytes;
}

/* A process line and the preads 0..count-1, with ids from 1. */
static inline void good_text(struct world *world, char *text, size_t size, unsigned count)
{
	struct pfw_spool_header *header = builder_header(&world->builder);
	unsigned long long start = header->start_ns;
	size_t used = (size_t)snprintf(
		text, size,
		"{\"id\":1,\"name\":\"process\",\"cat\":\"pfw\",\"pid\":%d,\"tid\":%d,"
		"\"ts\":%llu.%03llu,\"ph\":\"M\",\"args\":{\"format\":1,\"start_ts\":%llu.%03llu}}\n",
		header->pid, header->pid, start / 1000, start % 1000, start / 1000, start % 1000);

	for (unsigned i = 0; i < count; i++)
		used += (size_t)snprintf(
			text + used, size - used,
			"{\"id\":%u,\"name\":\"pread\",\"cat\":\"POSIX\",\"pid\":%d,"
			"\"tid\":9,\"ts\":1.000,\"dur\":0.412,\"ph\":\"X\","
			"\"args\":{\"offset\":%u}}\n",
			i + 2, header->pid, i);
}

/* The good part of `count` events with `garbage` behind it (an unfinished write), and a slot. */
static inline uint64_t make_good(struct world *world, unsigned count, const char *garbage,
				 uint64_t generation)
{
	char text[16384];
	uint64_t bytes;
	FILE *file;

	good_text(world, text, sizeof(text), count);
	bytes = write_good(world, world->builder.trace, text);
	file = fopen(world->builder.trace, "a");
	fputs(garbage, file);
	fclose(file);
	builder_slot(&world->builder, generation, bytes, count + 2, count);
	return bytes;
}

/* ---- reading the trace back ---- */

static inline void read_trace(struct world *world, const char *path)
{
	gzFile file = gzopen(path, "rb"); /* reads plain text as it is */
	size_t room = 1 << 24;
	int got;

	free(world->text);
	world->text = malloc(room);
	assert_non_null(file);
	got = gzread(file, world->text, (unsigned)room - 1);
	assert_true(got >= 0);
	assert_int_equal(gzclose(file), Z_OK); /* no half member at the end */
	world->text[got] = '\0';
}

static inline uint64_t figure(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	assert_non_null(at);
	return strtoull(at + strlen(key), NULL, 10);
}

static inline void take_line(struct world *world, const char *line)
{
	uint64_t id;

	assert_true(pfw_json_valid(line, strlen(line)));
	id = figure(line, "{\"id\":");
	assert_true(id > world->next_id); /* ascending: none twice */
	world->next_id = id;
	world->lines++;
	world->ends += strstr(line, "\"name\":\"end\"") != NULL;
	if (!strstr(line, "\"cat\":\"pfw\"")) {
		uint64_t seq = figure(line, "\"offset\":");

		assert_true(seq < SEQS);
		world->seen[seq]++;
		world->events++;
	}
}

/* Read the trace: every line valid, ids ascending, events 0..count-1 exactly once, one end. */
static inline void check_trace(struct world *world, const char *path, uint64_t count)
{
	char *save = NULL, *copy;

	read_trace(world, path);
	memset(world->seen, 0, sizeof(world->seen));
	world->events = world->lines = world->ends = world->next_id = 0;
	assert_true(!*world->text || world->text[strlen(world->text) - 1] == '\n');
	copy = strdup(world->text);
	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		take_line(world, line);
	free(copy);
	assert_int_equal(world->events, count);
	for (uint64_t i = 0; i < count; i++)
		assert_int_equal(world->seen[i], 1);
	assert_int_equal(world->ends, 1);
	assert_non_null(
		strstr(strstr(world->text, "\"name\":\"end\""), "\"reason\":\"recovered\"}}\n"));
	assert_int_equal(figure(strstr(world->text, "\"name\":\"end\""), "\"events\":"), count);
}

static inline void recover(struct world *world, enum pfw_recover_status wanted)
{
	int error = pfw_recover_spool(world->builder.path, world->place, &world->result);

	if (world->result.status != wanted)
		print_message("status %d: %s\n", world->result.status, world->result.why);
	assert_int_equal(world->result.status, wanted);
	assert_int_equal(error < 0, wanted == PFW_RECOVER_BAD);
	assert_int_equal(exists(world->builder.path),
			 wanted != PFW_RECOVER_DONE && wanted != PFW_RECOVER_NOTHING);
}

/* Events from..to-1 into a new stretch. */
static inline struct pfw_ring_chunk *stretch_of(struct world *world, uint32_t ring, uint64_t order,
						uint64_t from, uint64_t to)
{
	uint32_t capacity = 8;
	struct pfw_ring_chunk *stretch;

	while (capacity < to - from)
		capacity *= 2;
	stretch = builder_stretch(&world->builder, ring, order, capacity, 100 + (int32_t)ring, 3);
	for (uint64_t seq = from; seq < to; seq++)
		builder_pread(stretch, seq, 0, "");
	return stretch;
}

static inline void start(struct world *world, bool compressed)
{
	builder_init(&world->builder, world->dir, compressed);
	builder_templates(&world->builder);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, make_world, free_world)
