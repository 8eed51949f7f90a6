/* test_recover_damage.c - recovery that fails or is killed on its way, and spools that are damaged
 * or hostile: nothing is lost, nothing else is touched, nothing crashes.
 */
#include "store/recover/recover.h"

#include <signal.h>
#include <sys/resource.h>

#include "recover_world.h"

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
		pfw_recover_spool(world->builder.path, world->place, &world->result);
		_exit(world->result.status == PFW_RECOVER_BAD &&
				      strstr(world->result.why, "nothing more is lost")
			      ? 99
			      : (int)world->result.status);
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
			pfw_recover_spool(world->builder.path, world->place, &world->result);
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
			pfw_recover_spool(world->builder.path, world->place, &world->result);
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

#define DAMAGE(member, value)                                              \
	{                                                                  \
#member, offsetof(struct pfw_spool_header, member), value, \
			sizeof(((struct pfw_spool_header *)0)->member)     \
	}

/* A header that makes no sense is refused, and nothing is touched. */
static void test_bad_headers(void **state)
{
	static const struct damage damages[] = {
		DAMAGE(magic, 0x4c4f4f5053574651ull),
		DAMAGE(version, PFW_SPOOL_VERSION + 1),
		DAMAGE(header_bytes, 4096),
		DAMAGE(header_bytes, 8193),
		DAMAGE(header_bytes, PFW_PAGE_BYTES_MAX + PFW_PAGE_BYTES),
		DAMAGE(end, 100),
		DAMAGE(end, 4097 * 3),
		DAMAGE(pid, 0),
		DAMAGE(pid, UINT32_MAX),
		DAMAGE(state, 3),
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
	static const uint64_t lengths[] = {
		0, 1, PFW_PAGE_BYTES + 1, UINT64_MAX, UINT64_MAX - PFW_PAGE_BYTES + 1, 1ull << 40
	};
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
		pfw_recover_spool(world->builder.path, world->place, &world->result);
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
	snprintf(pfw_spool_trace_path(builder_header(&world->builder)), 4096, "%s/t.pfw", open_dir);
	assert_true(builder_write(&world->builder));
	recover(world, PFW_RECOVER_DONE);
	assert_int_equal(stat(world->result.trace, &st), 0);
	assert_int_equal(st.st_uid, 65534);
	check_trace(world, world->result.trace, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
