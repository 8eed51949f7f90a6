/* test_recover.c - spools of killed processes, made by hand: what must come out, who may adopt, and
 * what must not be touched.
 */
#include "store/recover/recover.h"

#include <signal.h>
#include <sys/file.h>

#include "recover_world.h"

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

/* The pages of the machine that it was made on, not ours. */
static void test_large_pages(void **state)
{
	struct world *world = *state;
	uint32_t name;

	builder_init(&world->builder, world->dir, false);
	builder_pages(&world->builder, PFW_PAGE_BYTES_MAX);
	builder_templates(&world->builder);
	name = builder_string(&world->builder, "/data/a");
	make_good(world, 5, "cut", 8);
	builder_pread(stretch_of(world, 0, 0, 5, 9), 9, name, NULL);
	stretch_of(world, 1, 0, 10, 12);
	assert_int_equal(world->builder.end % PFW_PAGE_BYTES_MAX, 0);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 12);
	assert_int_equal(world->result.recovered, 7);
	assert_non_null(strstr(world->text, "\"fname\":\"/data/a\""));
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

/* Killed between the blanks that fill a page behind an `end`, and what was to come in the next one. */
static void test_blanks_behind_the_end(void **state)
{
	struct world *world = *state;
	FILE *file;

	start(world, false);
	make_good(world, 5, "", 8);
	stretch_of(world, 0, 0, 5, 9);
	assert_true(builder_write(&world->builder));
	file = fopen(world->builder.trace, "r+");
	fseek(file, -1, SEEK_END);
	fputs("          \n", file);
	fclose(file);
	recover(world, PFW_RECOVER_DONE);
	check_trace(world, world->builder.trace, 9);
	assert_null(strstr(world->text, "} "));
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
	/* Of the five two are in the good part; the others are found again, if they are there. */
	header->lost[PFW_LOST_TORN].count = 5;
	header->slot[0].torn = header->slot[1].torn = 2;
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
	assert_int_equal(pfw_recover_spool(world->builder.path, world->place, &world->result), 0);
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

/* A directory is looked in once for the listings, however many traces are asked for. */
static void test_find_in(void **state)
{
	struct world *world = *state;
	const char *dirs[] = { "/nowhere/at/all", world->dir, NULL };
	const char *others[PFW_SPOOL_LISTINGS + 1] = { NULL };
	char name[PFW_SPOOL_LISTINGS][128], trace[128], later[128];
	struct pfw_spool_listings listings = { 0 };
	struct pfw_spool_places in = { .dir = dirs, .listings = &listings };
	struct found found = { 0 };

	snprintf(trace, sizeof(trace), "%s/a.pfw", world->dir);
	snprintf(later, sizeof(later), "%s/b.pfw", world->dir);
	write_named(world, "pfw-0-12-3.spool", trace, "one");
	assert_int_equal(pfw_recover_find_in(&in, trace, NULL, note, &found), 0);
	assert_int_equal(found.count, 1);
	write_named(world, "pfw-0-11-3.spool", later, "one");
	assert_int_equal(pfw_recover_find_in(&in, later, NULL, note, &found), 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(pfw_recover_find_in(&in, trace, NULL, note, &found), 0);
	assert_int_equal(found.count, 2);

	/* Only so many are kept: a directory that was not asked for lately is listed anew. */
	for (size_t i = 0; i < PFW_SPOOL_LISTINGS; i++) {
		snprintf(name[i], sizeof(name[i]), "%s/%zu", world->dir, i);
		others[i] = name[i];
	}
	in.dir = others;
	assert_int_equal(pfw_recover_find_in(&in, later, NULL, note, &found), 0);
	in.dir = dirs;
	assert_int_equal(pfw_recover_find_in(&in, later, NULL, note, &found), 0);
	assert_int_equal(found.count, 3);
	pfw_spool_listings_free(&listings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(test_large_pages),
		WORLD_TEST(test_raw),
		WORLD_TEST(test_gzip),
		WORLD_TEST(test_parity),
		WORLD_TEST(test_stretches),
		WORLD_TEST(test_torn),
		WORLD_TEST(test_multi_slot),
		WORLD_TEST(test_blanks_behind_the_end),
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
		WORLD_TEST(test_find),
		WORLD_TEST(test_find_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
