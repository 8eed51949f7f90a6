/* test_recover.c - spools of killed processes, made by hand: what must come out, and what must not
 * be touched.  Every test compares the trace with a model: each event exactly once.
 */
#include "store/recover.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <zlib.h>

#include "gzip.h"
#include "json.h"
#include "lines.h"
#include "spool_builder.h"

#define SEQS 65536u

struct world {
	char dir[64];
	struct builder builder;
	struct pfw_recovery result;
	uint8_t seen[SEQS]; /* of the event with this sequence number, in the trace */
	uint64_t events, lines, ends;
	uint64_t next_id;
	char *text;
};

static int make_world(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	strcpy(world->dir, "/tmp/pfw-recover-XXXXXX");
	assert_non_null(mkdtemp(world->dir));
	*state = world;
	return 0;
}

static int free_world(void **state)
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

static uint64_t file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

static bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

/* ---- the good part of a trace, as its writer left it ---- */

/* Write `text` as the writer would: one member where compressed.  Return its bytes in the file. */
static uint64_t write_good(struct world *world, const char *path, const char *text)
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
static void good_text(struct world *world, char *text, size_t size, unsigned count)
{
	struct pfw_spool_header *header = builder_header(&world->builder);
	unsigned long long start = header->start_ns;
	size_t used = (size_t)snprintf(
		text, size,
		"{\"id\":1,\"name\":\"process\",\"cat\":\"pfw\",\"pid\":%d,\"tid\":%d,"
		"\"ts\":%llu.%03llu,\"ph\":\"M\",\"args\":{\"format\":1,\"start_ts\":%llu.%03llu}}\n",
		header->pid, header->pid, start / 1000, start % 1000, start / 1000, start % 1000);

	for (unsigned i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, size - used,
					 "{\"id\":%u,\"name\":\"pread\",\"cat\":\"POSIX\",\"pid\":%d,"
					 "\"tid\":9,\"ts\":1.000,\"dur\":0.412,\"ph\":\"X\","
					 "\"args\":{\"offset\":%u}}\n",
					 i + 2, header->pid, i);
}

/* The good part of `count` events with `garbage` behind it (an unfinished write), and a slot. */
static uint64_t make_good(struct world *world, unsigned count, const char *garbage,
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

static void read_trace(struct world *world, const char *path)
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

static uint64_t figure(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	assert_non_null(at);
	return strtoull(at + strlen(key), NULL, 10);
}

static void take_line(struct world *world, const char *line)
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
static void check_trace(struct world *world, const char *path, uint64_t count)
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
	assert_non_null(strstr(strstr(world->text, "\"name\":\"end\""),
			       "\"reason\":\"recovered\"}}\n"));
	assert_int_equal(figure(strstr(world->text, "\"name\":\"end\""), "\"events\":"), count);
}

static void recover(struct world *world, enum pfw_recover_status wanted)
{
	int error = pfw_recover_spool(world->builder.path, &world->result);

	if (world->result.status != wanted)
		print_message("status %d: %s\n", world->result.status, world->result.why);
	assert_int_equal(world->result.status, wanted);
	assert_int_equal(error < 0, wanted == PFW_RECOVER_BAD);
	assert_int_equal(exists(world->builder.path),
			 wanted != PFW_RECOVER_DONE && wanted != PFW_RECOVER_NOTHING);
}

/* Events from..to-1 into a new stretch. */
static struct pfw_ring_chunk *stretch_of(struct world *world, uint32_t ring, uint64_t order,
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

static void start(struct world *world, bool compressed)
{
	builder_init(&world->builder, world->dir, compressed);
	builder_templates(&world->builder);
}

/* ---- the plain cases ---- */

static void recover_good_and_rings(struct world *world, bool compressed)
{
	uint32_t name;

	start(world, compressed);
	name = builder_string(&world->builder, "/data/a \"file\"");
	make_good(world, 5, "{\"id\":7,\"na", 8);
	builder_pread(stretch_of(world, 0, 0, 5, 9), 9, name, NULL);
	stretch_of(world, 1, 0, 10, 12);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 12);
	assert_string_equal(world->result.trace, world->builder.trace);
	assert_string_equal(world->result.run, "run-7");
	assert_string_equal(world->result.why, "");
	assert_int_equal(world->result.pid, builder_header(&world->builder)->pid);
	assert_int_equal(world->result.recovered, 7);
	assert_int_equal(world->result.torn, 0);
	assert_int_equal(world->result.lost, 0);
	assert_int_equal(world->result.cut_bytes, 11);
	assert_non_null(strstr(world->text, "\"fname\":\"/data/a \\\"file\\\"\""));
	assert_non_null(strstr(world->text, "\"tid\":100,\"ts\":1795230878000005.123"));
	assert_non_null(strstr(world->text, "\"args\":{\"name\":\"thread-100\"}"));
	assert_non_null(strstr(world->text, "\"args\":{\"name\":\"thread-101\"}"));
	/* process, 12 events, two names, end. */
	assert_int_equal(world->lines, 16);
	assert_int_equal(world->next_id, 16);
}

static void test_raw(void **state)
{
	recover_good_and_rings(*state, false);
}

static void test_gzip(void **state)
{
	recover_good_and_rings(*state, true);
}

/* The odd slot is newer: its parity of saved_tail counts, whatever the even one says. */
static void test_parity(void **state)
{
	struct world *world = *state;
	struct pfw_ring_chunk *stretch;

	start(world, false);
	make_good(world, 5, "", 9);
	builder_slot(&world->builder, 8, 0, 1, 0);
	stretch = stretch_of(world, 0, 0, 3, 8);
	stretch->saved_tail[1] += 2; /* 3 and 4 are in the file */
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 8);
}

/* Stretches lie in the file as they were made; the text has them by ring, then order. */
static void test_stretches(void **state)
{
	struct world *world = *state;
	struct pfw_ring_chunk *stretch;
	const char *first, *second;

	start(world, false);
	make_good(world, 0, "", 2);
	stretch = stretch_of(world, 1, 0, 24, 30);
	stretch->head |= PFW_RING_CLOSED;
	stretch_of(world, 0, 7, 12, 24);
	stretch = stretch_of(world, 2, 0, 0, 8); /* free: given back to the list */
	stretch->in_use = 0;
	stretch = stretch_of(world, 0, 6, 0, 12);
	stretch->head |= PFW_RING_CLOSED;
	stretch = stretch_of(world, 3, 0, 0, 8); /* all of it is in the file */
	stretch->saved_tail[0] = stretch->head;
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 30);
	first = strstr(world->text, "\"offset\":11}");
	second = strstr(world->text, "\"offset\":12}");
	assert_true(first && second && first < second);
	/* One name for the two stretches of ring 0. */
	first = strstr(world->text, "thread-100");
	assert_null(strstr(first + 1, "thread-100"));
}

static void test_torn(void **state)
{
	struct world *world = *state;
	struct pfw_ring_chunk *stretch;

	start(world, false);
	make_good(world, 0, "", 2);
	stretch = builder_stretch(&world->builder, 0, 0, 16, 100, 1000);
	builder_torn(stretch);
	builder_pread(stretch, 0, 0, "");
	builder_torn(stretch);
	builder_torn(stretch);
	builder_pread(stretch, 1, 0, "");
	builder_pread(stretch, 2, 0, "")->template = 77; /* says nothing */
	builder_pread(stretch, 2, 0, "");
	builder_torn(stretch);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 3);
	assert_int_equal(world->result.torn, 4);
	assert_int_equal(world->result.lost, 4);
	assert_non_null(strstr(world->text, "{\"reason\":\"torn\",\"count\":4,"));
}

/* Records of several slots, with names in their tails; they never wrap: there is padding. */
static void test_multi_slot(void **state)
{
	struct world *world = *state;
	struct pfw_ring_chunk *stretch;
	char name[16384];

	start(world, true);
	make_good(world, 0, "", 2);
	stretch = builder_stretch(&world->builder, 0, 0, 512, 100, 508);
	for (unsigned seq = 0; seq < 40; seq++) {
		unsigned bytes = seq == 39 ? 16000 : 1 + seq * 29;

		memset(name, 'a' + (int)(seq % 26), bytes);
		name[bytes] = '\0';
		if (seq == 39) {
			stretch->head |= PFW_RING_CLOSED;
			stretch = builder_stretch(&world->builder, 0, 1, 256, 100, 0);
		}
		builder_pread(stretch, seq, 0, name);
	}
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 40);
	assert_int_equal(world->result.torn, 0);
	assert_non_null(strstr(world->text, "\"fname\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\""));
}

/* More text than one member holds. */
static void test_many_members(void **state)
{
	struct world *world = *state;

	start(world, true);
	make_good(world, 1, "\x1f\x8b\x08", 4);
	stretch_of(world, 0, 0, 1, 20001);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 20001);
	assert_int_equal(world->result.cut_bytes, 3);
}

static void test_losses(void **state)
{
	struct world *world = *state;
	struct pfw_spool_header *header;

	start(world, false);
	header = builder_header(&world->builder);
	make_good(world, 2, "", 2);
	header->lost[PFW_LOST_FULL].count = 40;
	header->lost[PFW_LOST_TORN].count = 2;
	header->lost[PFW_LOST_TORN].first_ns = BUILDER_START_NS;
	header->waited.count = 3;
	header->waited.last_ns = 4500;
	header->excluded[PFW_EXCLUDED_PYTHON] = 6600;
	builder_torn(stretch_of(world, 0, 0, 2, 3));
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 3);
	assert_int_equal(world->result.torn, 1);
	assert_int_equal(world->result.lost, 43);
	assert_non_null(strstr(world->text, "{\"reason\":\"full\",\"count\":40,"));
	assert_non_null(strstr(world->text, "{\"reason\":\"torn\",\"count\":3,\"first_ts\":"
					    "1795230878000000.123,"));
	assert_non_null(strstr(world->text, "\"args\":{\"count\":3,\"total\":4.500}"));
	assert_non_null(strstr(world->text, "\"args\":{\"python\":6600}"));
	assert_non_null(strstr(world->text, "{\"events\":3,\"lost\":43,"));
}

/* ---- a trace that was never made ---- */

static void test_never_made(void **state)
{
	struct world *world = *state;

	start(world, false);
	builder_header(&world->builder)->file_made = 0;
	stretch_of(world, 0, 0, 0, 5);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 5);
	assert_string_equal(world->result.trace, world->builder.trace);
	assert_true(!strncmp(world->text, "{\"id\":1,\"name\":\"process\",", 24));
	assert_non_null(strstr(world->text, world->builder.path)); /* its spool */
}

/* Made, but killed in its first write: nothing is good. */
static void test_first_write(void **state)
{
	struct world *world = *state;
	FILE *file;

	start(world, true);
	file = fopen(world->builder.trace, "w");
	fputs("\x1f\x8b\x08", file);
	fclose(file);
	stretch_of(world, 0, 0, 0, 5);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 5);
	assert_int_equal(world->result.cut_bytes, 3);
	assert_non_null(strstr(world->text, "\"name\":\"process\""));
}

/* Its name is taken by a file with something in it: that stays, ours is number 2. */
static void test_never_made_taken(void **state)
{
	struct world *world = *state;
	char second[600];
	FILE *file;

	start(world, false);
	snprintf(second, sizeof(second), "%s/t.2.pfw", world->dir);
	builder_header(&world->builder)->file_made = 0;
	file = fopen(world->builder.trace, "w");
	fputs("precious", file);
	fclose(file);
	stretch_of(world, 0, 0, 0, 5);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	assert_string_equal(world->result.trace, second);
	check_trace(world, second, 5);
	assert_int_equal(file_bytes(world->builder.trace), 8);
}

/* Killed between making the file and noting it: the empty file is the process's own. */
static void test_never_made_empty(void **state)
{
	struct world *world = *state;

	start(world, false);
	builder_header(&world->builder)->file_made = 0;
	close(open(world->builder.trace, O_WRONLY | O_CREAT, 0600));
	stretch_of(world, 0, 0, 0, 5);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	assert_string_equal(world->result.trace, world->builder.trace);
	check_trace(world, world->builder.trace, 5);
}

static void test_nothing_recorded(void **state)
{
	struct world *world = *state;

	start(world, false);
	builder_header(&world->builder)->file_made = 0;
	builder_header(&world->builder)->excluded[0] = 9; /* no reason to make a file */
	stretch_of(world, 0, 0, 0, 0);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_NOTHING);
	assert_false(exists(world->builder.trace));
}

/* Losses alone are worth a file: nothing is lost silently. */
static void test_only_losses(void **state)
{
	struct world *world = *state;

	start(world, false);
	builder_header(&world->builder)->file_made = 0;
	builder_header(&world->builder)->lost[PFW_LOST_NO_WRITER].count = 12;
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 0);
	assert_non_null(strstr(world->text, "{\"reason\":\"no_writer\",\"count\":12,"));
}

/* Killed before its templates were filled in, or before there were any. */
static void test_no_templates(void **state)
{
	struct world *world = *state;

	builder_init(&world->builder, world->dir, false);
	make_good(world, 2, "x", 2);
	builder_chunk(&world->builder, PFW_CHUNK_TEMPLATES, 0, 8192);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 2);
}

/* ---- who may adopt ---- */

static void test_alive(void **state)
{
	struct world *world = *state;
	struct pfw_process process;

	start(world, false);
	make_good(world, 2, "", 2);
	stretch_of(world, 0, 0, 2, 4);
	assert_int_equal(pfw_process_read(&process, getpid()), 0);
	builder_header(&world->builder)->pid = process.pid;
	builder_header(&world->builder)->start_time = process.start_time;
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_LIVE);
	assert_non_null(strstr(world->result.why, "runs"));
	/* The same pid, but a process that began later: it was used again. */
	builder_header(&world->builder)->start_time--;
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
}

/* Killed, and its parent has not looked yet: it will write no more. */
static void test_zombie(void **state)
{
	struct world *world = *state;
	struct pfw_process process;
	siginfo_t info;
	pid_t pid;

	start(world, false);
	make_good(world, 0, "", 2);
	stretch_of(world, 0, 0, 0, 4);
	pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	assert_int_equal(pfw_process_read(&process, pid), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	builder_header(&world->builder)->start_time = process.start_time;
	builder_header(&world->builder)->pid = pid;
	unlink(world->builder.trace);
	make_good(world, 0, "", 2);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 4);
	waitpid(pid, NULL, 0);
}

static void test_trace_locked(void **state)
{
	struct world *world = *state;
	uint64_t bytes;
	int fd;

	start(world, false);
	make_good(world, 2, "tail", 2);
	stretch_of(world, 0, 0, 2, 4);
	assert_true(builder_write(&world->builder));
	bytes = file_bytes(world->builder.trace);
	fd = open(world->builder.trace, O_RDONLY);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	recover(world, PFW_RECOVER_LIVE);
	assert_non_null(strstr(world->result.why, "namespace"));
	assert_int_equal(file_bytes(world->builder.trace), bytes);
	close(fd);
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 4);
}

static void test_spool_locked(void **state)
{
	struct world *world = *state;
	int fd;

	start(world, false);
	make_good(world, 2, "", 2);
	assert_true(builder_write(&world->builder));
	fd = open(world->builder.path, O_RDONLY);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	recover(world, PFW_RECOVER_LIVE);
	close(fd);
	recover(world, PFW_RECOVER_DONE);
}

static void test_foreign_host(void **state)
{
	struct world *world = *state;

	start(world, false);
	make_good(world, 2, "tail", 2);
	strcpy(builder_header(&world->builder)->host, "some-other-node");
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_FOREIGN);
	assert_non_null(strstr(world->result.why, "some-other-node"));
}

static void test_foreign_boot(void **state)
{
	struct world *world = *state;

	start(world, false);
	make_good(world, 2, "tail", 2);
	strcpy(builder_header(&world->builder)->boot_id, "01234567-89ab");
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_FOREIGN);
	assert_non_null(strstr(world->result.why, "01234567-89ab"));
}

static void test_done_before(void **state)
{
	struct world *world = *state;
	uint64_t bytes;

	start(world, false);
	bytes = make_good(world, 2, "", 2);
	stretch_of(world, 0, 0, 2, 4);
	builder_header(&world->builder)->state = PFW_SPOOL_DONE;
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_NOTHING);
	assert_int_equal(file_bytes(world->builder.trace), bytes);
}

/* Stopped, or another program by exec: finished, but the process may begin anew. */
static void test_done_and_alive(void **state)
{
	struct world *world = *state;
	struct pfw_process process;

	start(world, false);
	assert_int_equal(pfw_process_read(&process, getpid()), 0);
	builder_header(&world->builder)->pid = process.pid;
	builder_header(&world->builder)->start_time = process.start_time;
	builder_header(&world->builder)->state = PFW_SPOOL_DONE;
	assert_true(builder_write(&world->builder));
	assert_int_equal(pfw_recover_spool(world->builder.path, &world->result), 0);
	assert_int_equal(world->result.status, PFW_RECOVER_NOTHING);
	assert_true(exists(world->builder.path));
}

static void test_gone(void **state)
{
	struct world *world = *state;

	start(world, false);
	recover(world, PFW_RECOVER_NOTHING);
}

/* ---- the trace is not what it was ---- */

static void test_trace_removed(void **state)
{
	struct world *world = *state;
	char second[600];

	start(world, true);
	snprintf(second, sizeof(second), "%s/t.2.pfw.gz", world->dir);
	make_good(world, 2, "", 2);
	stretch_of(world, 0, 0, 2, 4);
	unlink(world->builder.trace);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	assert_non_null(strstr(world->result.why, "removed"));
	assert_string_equal(world->result.trace, second);
	read_trace(world, second);
	assert_non_null(strstr(world->text, "\"name\":\"process\""));
	assert_non_null(strstr(world->text, "\"offset\":2}"));
	assert_non_null(strstr(world->text, "\"offset\":3}"));
	assert_null(strstr(world->text, "\"offset\":0}"));
}

static void test_trace_shrunk(void **state)
{
	struct world *world = *state;
	uint64_t bytes;

	start(world, false);
	bytes = make_good(world, 2, "", 2);
	stretch_of(world, 0, 0, 2, 4);
	assert_int_equal(truncate(world->builder.trace, (off_t)bytes - 1), 0);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	assert_non_null(strstr(world->result.why, "shorter"));
	assert_non_null(strstr(world->result.trace, "/t.2.pfw"));
	assert_int_equal(file_bytes(world->builder.trace), bytes - 1);
}

/* The trace was removed and a later run has its name: a cut would destroy that run's lines. */
static void trace_of_another(struct world *world, bool compressed)
{
	uint64_t bytes;

	start(world, compressed);
	builder_header(&world->builder)->start_ns++;
	bytes = make_good(world, 50, "", 2);
	builder_header(&world->builder)->start_ns--;
	builder_slot(&world->builder, 2, bytes / 2, 4, 2);
	stretch_of(world, 0, 0, 2, 4);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	assert_non_null(strstr(world->result.why, "another process"));
	assert_int_equal(file_bytes(world->builder.trace), bytes);
	assert_string_not_equal(world->result.trace, world->builder.trace);
	read_trace(world, world->result.trace);
	assert_non_null(strstr(world->text, "\"offset\":3}"));
}

static void test_trace_of_another(void **state)
{
	trace_of_another(*state, false);
}

static void test_trace_of_another_gzip(void **state)
{
	trace_of_another(*state, true);
}

static void test_trace_symlink(void **state)
{
	struct world *world = *state;
	char victim[600];
	uint64_t bytes;

	start(world, false);
	snprintf(victim, sizeof(victim), "%s/victim", world->dir);
	bytes = make_good(world, 9, "", 2);
	builder_slot(&world->builder, 2, 10, 2, 2);
	stretch_of(world, 0, 0, 2, 4);
	assert_int_equal(rename(world->builder.trace, victim), 0);
	assert_int_equal(symlink(victim, world->builder.trace), 0);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	assert_int_equal(file_bytes(victim), bytes);
	assert_non_null(strstr(world->result.trace, "/t.2.pfw"));
}

/* ---- failures on the way, and adopters that die ---- */

static enum pfw_spool_state state_of(const struct builder *builder)
{
	struct pfw_spool_header header;
	int fd = open(builder->path, O_RDONLY);

	assert_int_equal(read(fd, &header, sizeof(header)), sizeof(header));
	close(fd);
	return header.state;
}

/* Recover in a child that may not write a file longer than `limit`. */
static enum pfw_recover_status recover_limited(struct world *world, uint64_t limit)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct rlimit most = { limit, limit };

		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &most);
		pfw_recover_spool(world->builder.path, &world->result);
		_exit(world->result.status == PFW_RECOVER_BAD &&
				      strstr(world->result.why, "nothing is lost") ?
			      99 :
			      (int)world->result.status);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return (enum pfw_recover_status)WEXITSTATUS(status);
}

static void test_no_space(void **state)
{
	struct world *world = *state;
	uint64_t bytes;

	start(world, false);
	bytes = make_good(world, 3, "unfinished", 2);
	stretch_of(world, 0, 0, 3, 15003);
	assert_true(builder_write(&world->builder));
	assert_int_equal(recover_limited(world, 1200000), 99);
	assert_int_equal(file_bytes(world->builder.trace), bytes);
	assert_int_equal(state_of(&world->builder), PFW_SPOOL_LIVE);
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 15003);
}

static unsigned count_files(const char *dir)
{
	char command[160];
	unsigned count = 0;
	FILE *pipe;

	snprintf(command, sizeof(command), "ls -A %s | wc -l", dir);
	pipe = popen(command, "r");
	assert_int_equal(fscanf(pipe, "%u", &count), 1);
	pclose(pipe);
	return count;
}

static void test_no_space_never_made(void **state)
{
	struct world *world = *state;

	start(world, false);
	builder_header(&world->builder)->file_made = 0;
	stretch_of(world, 0, 0, 0, 15000);
	assert_true(builder_write(&world->builder));
	assert_int_equal(recover_limited(world, 1200000), 99);
	assert_int_equal(count_files(world->dir), 1); /* the spool: nothing half made */
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 15000);
	assert_int_equal(count_files(world->dir), 1);
}

/* An adopter died after it had appended some: the cut undoes it. */
static void test_adopted_before(void **state)
{
	struct world *world = *state;

	start(world, false);
	make_good(world, 2, "{\"id\":4,\"name\":\"pread\",\"args\":{\"offset\":2}}\n{\"id\"", 2);
	stretch_of(world, 0, 0, 2, 4);
	builder_header(&world->builder)->state = PFW_SPOOL_ADOPTED;
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 4);
}

/* An adopter died after it had finished a new trace, before the spool was gone. */
static void test_published_before(void **state)
{
	struct world *world = *state;
	char second[600], text[4096];

	start(world, false);
	snprintf(second, sizeof(second), "%s/t.2.pfw", world->dir);
	builder_slot(&world->builder, 2, 5000, 30, 20);
	stretch_of(world, 0, 0, 20, 24);
	good_text(world, text, sizeof(text), 4);
	write_good(world, second, text);
	builder_header(&world->builder)->state = PFW_SPOOL_ADOPTED;
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	assert_string_equal(world->result.trace, second);
	assert_int_equal(file_bytes(second), strlen(text));
	assert_int_equal(count_files(world->dir), 1);
}

/* Kill an adopter after a random while, as often as it takes until one comes through. */
static void killed_adopters(struct world *world, bool compressed, bool made, unsigned seed)
{
	unsigned kills = 0;

	start(world, compressed);
	if (made)
		make_good(world, 2, "unfinished", 2);
	builder_header(&world->builder)->file_made = made;
	stretch_of(world, 0, 0, made ? 2 : 0, 9000);
	assert_true(builder_write(&world->builder));
	while (exists(world->builder.path)) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			pfw_recover_spool(world->builder.path, &world->result);
			_exit(0);
		}
		/* Each a little later, so that an end comes. */
		usleep((useconds_t)(rand_r(&seed) % 4000 + 100 * kills++));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	check_trace(world, world->builder.trace, 9000);
	assert_int_equal(count_files(world->dir), 1);
}

static void test_killed_adopters(void **state)
{
	killed_adopters(*state, false, true, 1);
}

static void test_killed_adopters_gzip(void **state)
{
	killed_adopters(*state, true, true, 2);
}

static void test_killed_adopters_new_trace(void **state)
{
	killed_adopters(*state, false, false, 3);
}

/* Several at once: one does it, whatever the others find. */
static void test_race(void **state)
{
	struct world *world = *state;
	unsigned done = 0, other = 0;
	pid_t pid[6];

	start(world, false);
	make_good(world, 2, "unfinished", 2);
	stretch_of(world, 0, 0, 2, 9000);
	assert_true(builder_write(&world->builder));
	for (unsigned i = 0; i < 6; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			pfw_recover_spool(world->builder.path, &world->result);
			_exit((int)world->result.status);
		}
	}
	for (unsigned i = 0; i < 6; i++) {
		int status;

		waitpid(pid[i], &status, 0);
		assert_true(WIFEXITED(status));
		done += WEXITSTATUS(status) == PFW_RECOVER_DONE;
		other += WEXITSTATUS(status) == PFW_RECOVER_LIVE ||
			 WEXITSTATUS(status) == PFW_RECOVER_NOTHING;
	}
	assert_int_equal(done, 1);
	assert_int_equal(other, 5);
	check_trace(world, world->builder.trace, 9000);
}

/* ---- damaged and hostile ---- */

struct damage {
	const char *name;
	size_t at;
	uint64_t value;
	unsigned bytes;
};

#define DAMAGE(member, value) \
	{ #member, offsetof(struct pfw_spool_header, member), value, \
	  sizeof(((struct pfw_spool_header *)0)->member) }

/* A header that makes no sense is refused, and nothing is touched. */
static void test_bad_headers(void **state)
{
	static const struct damage damages[] = {
		DAMAGE(magic, 0x4c4f4f5053574651ull), DAMAGE(version, 2),
		DAMAGE(header_bytes, 4096),	      DAMAGE(end, 100),
		DAMAGE(end, 4097 * 3),		      DAMAGE(pid, 0),
		DAMAGE(pid, UINT32_MAX),	      DAMAGE(state, 3),
		DAMAGE(slot[0].offset, UINT64_MAX),
		{ "trace, relative", PFW_PAGE_BYTES, 'x', 1 },
		{ "trace, none", PFW_PAGE_BYTES, 0, 1 },
	};
	struct world *world = *state;
	uint64_t bytes;

	start(world, false);
	make_good(world, 2, "tail", 2);
	bytes = file_bytes(world->builder.trace);
	for (unsigned i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		char *at = world->builder.bytes + damages[i].at, kept[8];

		memcpy(kept, at, damages[i].bytes);
		memcpy(at, &damages[i].value, damages[i].bytes);
		assert_true(builder_write(&world->builder));
		memcpy(at, kept, damages[i].bytes);
		recover(world, PFW_RECOVER_BAD);
		if (!world->result.why[0])
			fail_msg("%s: no reason given", damages[i].name);
		assert_int_equal(file_bytes(world->builder.trace), bytes);
	}
	memset(world->builder.bytes + PFW_PAGE_BYTES, '/', PFW_PAGE_BYTES); /* no end */
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_BAD);
	assert_int_equal(file_bytes(world->builder.trace), bytes);
}

/* One stretch makes no sense, the other is whole: the whole one counts, the loss is said. */
static void bad_stretch(struct world *world, void (*bend)(struct pfw_ring_chunk *))
{
	start(world, false);
	make_good(world, 2, "", 2);
	bend(stretch_of(world, 0, 0, 10, 14));
	stretch_of(world, 1, 0, 2, 4);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 4);
	assert_int_equal(world->result.torn, 1);
	assert_non_null(strstr(world->result.why, "damaged"));
	assert_non_null(strstr(world->text, "{\"reason\":\"torn\",\"count\":1,"));
}

static void bend_capacity(struct pfw_ring_chunk *stretch)
{
	stretch->capacity = 1u << 30;
}

static void bend_capacity_odd(struct pfw_ring_chunk *stretch)
{
	stretch->capacity = 7;
}

static void bend_capacity_none(struct pfw_ring_chunk *stretch)
{
	stretch->capacity = 0;
}

static void bend_capacity_long(struct pfw_ring_chunk *stretch)
{
	stretch->capacity = 128; /* the chunk has one page of slots: the next page is not its */
}

static void bend_head(struct pfw_ring_chunk *stretch)
{
	stretch->head = 1u << 20;
}

static void bend_tail(struct pfw_ring_chunk *stretch)
{
	stretch->saved_tail[0] = 1u << 20;
}

static void bend_tid(struct pfw_ring_chunk *stretch)
{
	stretch->tid = 0;
}

static void bend_kind(struct pfw_ring_chunk *stretch)
{
	stretch->chunk.kind = 9;
}

static void test_bad_stretches(void **state)
{
	static void (*const bends[])(struct pfw_ring_chunk *) = {
		bend_capacity, bend_capacity_odd, bend_capacity_none, bend_capacity_long,
		bend_head,     bend_tail,	  bend_tid,	      bend_kind,
	};
	struct world *world = *state;

	for (unsigned i = 0; i < sizeof(bends) / sizeof(bends[0]); i++) {
		bad_stretch(world, bends[i]);
		unlink(world->builder.trace);
		builder_release(&world->builder);
	}
}

/* Where one chunk's length is damaged, what is before it counts. */
static void test_bad_chunk_length(void **state)
{
	static const uint64_t lengths[] = { 0, 1, PFW_PAGE_BYTES + 1, UINT64_MAX,
					    UINT64_MAX - PFW_PAGE_BYTES + 1, 1ull << 40 };
	struct world *world = *state;

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		start(world, false);
		make_good(world, 2, "", 2);
		stretch_of(world, 0, 0, 2, 4);
		stretch_of(world, 1, 0, 10, 14)->chunk.bytes = lengths[i];
		assert_true(builder_write(&world->builder));
		recover(world, PFW_RECOVER_DONE);
		check_trace(world, world->builder.trace, 4);
		assert_int_equal(world->result.torn, 1);
		unlink(world->builder.trace);
		builder_release(&world->builder);
	}
}

/* A record that claims more slots than were reserved, or none. */
static void test_bad_records(void **state)
{
	struct world *world = *state;
	struct pfw_ring_chunk *stretch;

	start(world, false);
	make_good(world, 0, "", 2);
	stretch = builder_stretch(&world->builder, 0, 0, 8, 100, 0);
	builder_pread(stretch, 0, 0, "");
	builder_pread(stretch, 9, 0, "")->slots = 200; /* beyond the stretch */
	builder_pread(stretch, 1, 0, "");
	builder_pread(stretch, 2, 0, "")->slots = 0;
	builder_pread(stretch, 9, 0, "")->slots = 2; /* beyond what was reserved */
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 3);
	assert_int_equal(world->result.torn, 2);
}

/* Records that no template explains cannot be told: all stays, for a pfw that can. */
static void test_bad_templates(void **state)
{
	struct world *world = *state;

	for (unsigned i = 0; i < 6; i++) {
		struct pfw_template_chunk *chunk;

		builder_init(&world->builder, world->dir, false);
		chunk = builder_templates(&world->builder);
		make_good(world, 2, "tail", 2);
		stretch_of(world, 0, 0, 2, 4);
		if (i == 0)
			chunk->key_count = PFW_KEYS_MAX + 1;
		else if (i == 1)
			chunk->template_count = 1u << 31;
		else if (i == 2)
			chunk->template[0].field[1] = 3;
		else if (i == 3)
			chunk->template[0].field_count = PFW_TEMPLATE_FIELDS + 1;
		else if (i == 4)
			strcpy(chunk->key[1].name, "a\"b");
		else
			memset(chunk->template[0].name, 'n', sizeof(chunk->template[0].name));
		assert_true(builder_write(&world->builder));
		recover(world, PFW_RECOVER_BAD);
		unlink(world->builder.trace);
		builder_release(&world->builder);
	}
}

/* The file is shorter than its header says. */
static void test_truncated(void **state)
{
	struct world *world = *state;
	uint64_t bytes;

	start(world, false);
	make_good(world, 2, "", 2);
	stretch_of(world, 0, 0, 2, 4);
	stretch_of(world, 1, 0, 4, 8);
	for (bytes = world->builder.end; bytes; bytes -= bytes > 1000 ? 1000 : bytes) {
		assert_true(builder_write(&world->builder));
		assert_int_equal(truncate(world->builder.path, (off_t)bytes), 0);
		pfw_recover_spool(world->builder.path, &world->result);
		if (bytes < PFW_SPOOL_HEADER_BYTES) {
			assert_int_equal(world->result.status, PFW_RECOVER_NOTHING);
			continue;
		}
		assert_true(world->result.status == PFW_RECOVER_DONE ||
			    world->result.status == PFW_RECOVER_BAD);
		unlink(world->builder.trace);
		make_good(world, 2, "", 2);
	}
}

static void test_not_a_file(void **state)
{
	struct world *world = *state;
	char real[600];

	start(world, false);
	snprintf(real, sizeof(real), "%s/real", world->dir);
	assert_int_equal(mkfifo(world->builder.path, 0600), 0);
	recover(world, PFW_RECOVER_BAD);
	unlink(world->builder.path);
	assert_int_equal(mkdir(world->builder.path, 0700), 0);
	recover(world, PFW_RECOVER_BAD);
	rmdir(world->builder.path);
	make_good(world, 2, "", 2);
	assert_true(builder_write(&world->builder));
	assert_int_equal(rename(world->builder.path, real), 0);
	assert_int_equal(symlink(real, world->builder.path), 0);
	recover(world, PFW_RECOVER_BAD);
	assert_non_null(strstr(world->result.why, "symbolic link"));
}

/* Killed while making its spool: the name says whose it was. */
static void test_unborn(void **state)
{
	struct world *world = *state;
	struct pfw_process process;

	start(world, false);
	builder_header(&world->builder)->magic = 0;
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_NOTHING);
	assert_int_equal(pfw_process_read(&process, getpid()), 0);
	builder_header(&world->builder)->pid = process.pid;
	builder_header(&world->builder)->start_time = process.start_time;
	builder_name_spool(&world->builder);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_LIVE);
	snprintf(world->builder.path, sizeof(world->builder.path), "%s/mine.txt", world->dir);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_BAD); /* nobody's spool by its name: left alone */
}

/* Root adopts another user's spool as that user: its path reaches no further than the user. */
static void test_root_acts_as_owner(void **state)
{
	struct world *world = *state;
	struct stat st;
	char closed[128], open_dir[128];

	if (geteuid())
		skip();
	start(world, false);
	snprintf(closed, sizeof(closed), "%s/closed", world->dir);
	snprintf(open_dir, sizeof(open_dir), "%s/open", world->dir);
	assert_int_equal(mkdir(closed, 0700), 0);
	assert_int_equal(mkdir(open_dir, 0700), 0);
	assert_int_equal(chmod(world->dir, 0777), 0);
	assert_int_equal(chown(open_dir, 65534, 65534), 0);
	builder_header(&world->builder)->file_made = 0;
	stretch_of(world, 0, 0, 0, 4);
	snprintf(pfw_spool_trace_path(builder_header(&world->builder)), 4096, "%s/t.pfw", closed);
	assert_true(builder_write(&world->builder));
	assert_int_equal(chown(world->builder.path, 65534, 65534), 0);
	recover(world, PFW_RECOVER_BAD);
	assert_int_equal(count_files(closed), 0);
	assert_int_equal(state_of(&world->builder), PFW_SPOOL_LIVE);
	snprintf(pfw_spool_trace_path(builder_header(&world->builder)), 4096, "%s/t.pfw",
		 open_dir);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	assert_int_equal(stat(world->result.trace, &st), 0);
	assert_int_equal(st.st_uid, 65534);
	check_trace(world, world->result.trace, 4);
}

/* ---- finding ---- */

struct found {
	unsigned count, stop_at;
	char path[4][512];
};

static int note(const char *path, void *user)
{
	struct found *found = user;

	snprintf(found->path[found->count++ & 3], 512, "%s", path);
	return found->count == found->stop_at ? 5 : 0;
}

static void write_named(struct world *world, const char *name, const char *trace, const char *run)
{
	builder_init(&world->builder, world->dir, false);
	snprintf(world->builder.path, sizeof(world->builder.path), "%s/%s", world->dir, name);
	builder_name_trace(&world->builder, trace);
	strcpy(builder_header(&world->builder)->run, run);
	assert_true(builder_write(&world->builder));
	builder_release(&world->builder);
}

static void test_find(void **state)
{
	struct world *world = *state;
	const char *dirs[] = { "/nowhere/at/all", world->dir, NULL };
	char trace[128], linked[128], other[160];
	struct found found = { 0 };

	snprintf(trace, sizeof(trace), "%s/a.pfw", world->dir);
	snprintf(other, sizeof(other), "%s/../%s/c.pfw", world->dir, strrchr(world->dir, '/') + 1);
	snprintf(linked, sizeof(linked), "%s/link.pfw", world->dir);
	write_named(world, "pfw-0-12-3.spool", trace, "one");
	write_named(world, "pfw-0-11-3.spool", other, "two");
	write_named(world, "pfw-0-13-3.spool.2", trace, "two");
	write_named(world, "pfw-0-13-3.spool.old", trace, "two");
	write_named(world, "other-13-3.spool", trace, "two");
	write_named(world, "pfw-0-14-3.spool", "/tmp/z.pfw", "three");
	assert_int_equal(truncate(world->builder.path, 100), 0);

	assert_int_equal(pfw_recover_find(dirs, NULL, NULL, note, &found), 0);
	assert_int_equal(found.count, 4);
	assert_non_null(strstr(found.path[0], "/pfw-0-11-3.spool"));
	assert_non_null(strstr(found.path[3], "/pfw-0-14-3.spool"));

	found.count = 0;
	assert_int_equal(pfw_recover_find(dirs, trace, NULL, note, &found), 0);
	assert_int_equal(found.count, 2);
	assert_non_null(strstr(found.path[0], "/pfw-0-12-3.spool"));
	assert_non_null(strstr(found.path[1], "/pfw-0-13-3.spool.2"));

	found.count = 0; /* no such file, but the same directory by another path */
	snprintf(other, sizeof(other), "%s/c.pfw", world->dir);
	assert_int_equal(pfw_recover_find(dirs, other, NULL, note, &found), 0);
	assert_int_equal(found.count, 1);

	found.count = 0; /* another name of the same file */
	close(open(trace, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(symlink(trace, linked), 0);
	assert_int_equal(pfw_recover_find(dirs, linked, "two", note, &found), 0);
	assert_int_equal(found.count, 1);

	found.count = 0;
	assert_int_equal(pfw_recover_find(dirs, NULL, "two", note, &found), 0);
	assert_int_equal(found.count, 2);

	found.count = 0;
	found.stop_at = 2;
	assert_int_equal(pfw_recover_find(dirs, NULL, NULL, note, &found), 5);
	assert_int_equal(found.count, 2);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, make_world, free_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(test_raw),
		WORLD_TEST(test_gzip),
		WORLD_TEST(test_parity),
		WORLD_TEST(test_stretches),
		WORLD_TEST(test_torn),
		WORLD_TEST(test_multi_slot),
		WORLD_TEST(test_many_members),
		WORLD_TEST(test_losses),
		WORLD_TEST(test_never_made),
		WORLD_TEST(test_first_write),
		WORLD_TEST(test_never_made_taken),
		WORLD_TEST(test_never_made_empty),
		WORLD_TEST(test_nothing_recorded),
		WORLD_TEST(test_only_losses),
		WORLD_TEST(test_no_templates),
		WORLD_TEST(test_alive),
		WORLD_TEST(test_zombie),
		WORLD_TEST(test_trace_locked),
		WORLD_TEST(test_spool_locked),
		WORLD_TEST(test_foreign_host),
		WORLD_TEST(test_foreign_boot),
		WORLD_TEST(test_done_before),
		WORLD_TEST(test_done_and_alive),
		WORLD_TEST(test_gone),
		WORLD_TEST(test_trace_removed),
		WORLD_TEST(test_trace_shrunk),
		WORLD_TEST(test_trace_of_another),
		WORLD_TEST(test_trace_of_another_gzip),
		WORLD_TEST(test_trace_symlink),
		WORLD_TEST(test_no_space),
		WORLD_TEST(test_no_space_never_made),
		WORLD_TEST(test_adopted_before),
		WORLD_TEST(test_published_before),
		WORLD_TEST(test_killed_adopters),
		WORLD_TEST(test_killed_adopters_gzip),
		WORLD_TEST(test_killed_adopters_new_trace),
		WORLD_TEST(test_race),
		WORLD_TEST(test_bad_headers),
		WORLD_TEST(test_bad_stretches),
		WORLD_TEST(test_bad_chunk_length),
		WORLD_TEST(test_bad_records),
		WORLD_TEST(test_bad_templates),
		WORLD_TEST(test_truncated),
		WORLD_TEST(test_not_a_file),
		WORLD_TEST(test_unborn),
		WORLD_TEST(test_root_acts_as_owner),
		WORLD_TEST(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
