/* test_blocks.c - where the blocks of a trace are: text, members, streams; which files, whose. */
#include "store/gzip/member.h"
#include "store/read/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "store/traces/traces.h"
#include "trace_files.h"

static struct pfw_blocks find(const char *path)
{
	struct pfw_blocks blocks;

	assert_int_equal(pfw_blocks_find(&blocks, path), 0);
	return blocks;
}

static void test_text_is_cut_by_the_byte(void **state)
{
	struct fixture *fixture = *state;
	static const size_t sizes[] = {
		0, 1, PFW_BLOCK_TEXT - 1, PFW_BLOCK_TEXT, PFW_BLOCK_TEXT + 1, 5 * PFW_BLOCK_TEXT
	};
	static char text[5 * PFW_BLOCK_TEXT];

	memset(text, '\n', sizeof(text));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct pfw_blocks blocks;
		uint64_t at = 0;

		write_file(fixture->path, text, sizes[i]);
		blocks = find(fixture->path);
		assert_int_equal(blocks.layout, PFW_LAYOUT_TEXT);
		assert_int_equal(blocks.file_bytes, sizes[i]);
		for (size_t k = 0; k < blocks.count; k++) {
			assert_int_equal(blocks.block[k].at, at);
			assert_in_range(blocks.block[k].bytes, 1, PFW_BLOCK_TEXT);
			assert_false(blocks.block[k].summed);
			at += blocks.block[k].bytes;
		}
		assert_int_equal(at, sizes[i]);
		pfw_blocks_free(&blocks);
	}
}

/* Members of ours, of 1, 2, … lines. */
static size_t members(unsigned char *bytes, size_t room, unsigned count, size_t *at)
{
	char text[8 * sizeof(OURS)] = "";
	size_t used = 0;

	for (unsigned i = 0; i < count; i++) {
		strcat(text, OURS "\n");
		at[i] = used;
		used += member(bytes + used, room - used, text, strlen(text), i + 1);
	}
	at[count] = used;
	return used;
}

static void test_members_say_where_they_end(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[4096];
	size_t at[6], total = members(bytes, sizeof(bytes), 5, at);

	for (size_t cut = total; cut > 40; cut--) {
		struct pfw_blocks blocks;

		write_file(fixture->path, bytes, cut);
		blocks = find(fixture->path);
		assert_int_equal(blocks.layout, PFW_LAYOUT_MEMBERS);
		for (size_t i = 0; i < blocks.count; i++) {
			bool whole = at[i + 1] <= cut;

			assert_int_equal(blocks.block[i].at, at[i]);
			assert_int_equal(blocks.block[i].bytes, (whole ? at[i + 1] : cut) - at[i]);
			assert_int_equal(blocks.block[i].summed, whole);
			assert_int_equal(blocks.block[i].lines, whole ? i + 1 : 0);
		}
		assert_true(at[blocks.count] >= cut && at[blocks.count - 1] < cut);
		pfw_blocks_free(&blocks);
	}
}

static void test_one_look_at_a_member(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[8192];
	size_t at[3], used = members(bytes, sizeof(bytes), 2, at);
	struct pfw_link link;
	int fd;

	write_file(fixture->path, bytes, used);
	fd = open(fixture->path, O_RDONLY);
	assert_int_equal(pfw_is_gzip_fd(fd), 1);
	assert_int_equal(pfw_chain_look(&link, fd, 0), 0);
	assert_int_equal(link.summary.member_bytes, at[1]);
	assert_int_equal(link.text_before, 0);
	assert_int_equal(pfw_chain_look(&link, fd, at[1]), 0);
	assert_int_equal(link.summary.lines, 2);
	assert_int_equal(link.text_before, sizeof(OURS));
	assert_int_equal(pfw_chain_look(&link, fd, used), -EAGAIN);
	assert_int_equal(link.text_before, 2 * sizeof(OURS));
	assert_int_equal(pfw_chain_look(&link, fd, used - 1), -ENOENT);
	assert_int_equal(pfw_chain_look(&link, fd, used + 100), -EAGAIN);
	/* A header that is cut. */
	assert_int_equal(truncate(fixture->path, (off_t)at[1] + 30), 0);
	assert_int_equal(pfw_chain_look(&link, fd, at[1]), -EAGAIN);
	close(fd);
	write_file(fixture->path, "\x1f", 1);
	fd = open(fixture->path, O_RDONLY);
	assert_int_equal(pfw_is_gzip_fd(fd), 0);
	close(fd);
}

static void assert_stream(const char *path)
{
	struct pfw_blocks blocks = find(path);

	assert_int_equal(blocks.layout, PFW_LAYOUT_STREAM);
	assert_null(blocks.block);
	assert_int_equal(blocks.count, 0);
	pfw_blocks_free(&blocks);
}

static void put_u32(unsigned char *out, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		out[i] = (unsigned char)(value >> 8 * i);
}

static void test_what_cannot_be_known_is_a_stream(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[4096];
	size_t at[6], total = members(bytes, sizeof(bytes), 5, at);
	char path[128];

	strcpy((char *)bytes + total, "rubbish");
	write_file(fixture->path, bytes, total + 7);
	assert_stream(fixture->path);
	put_u32(bytes + at[2] + 16, 49); /* shorter than any member is */
	write_file(fixture->path, bytes, total);
	assert_stream(fixture->path);
	put_u32(bytes + at[2] + 16, (uint32_t)(at[3] - at[2]));
	put_u32(bytes + at[3] - 4, 1u << 30); /* text that cannot be in so few bytes */
	write_file(fixture->path, bytes, total);
	assert_stream(fixture->path);
	total = member(bytes, sizeof(bytes), OURS, sizeof(OURS) - 1, 0); /* another tool's */
	write_file(fixture->path, bytes, total);
	assert_stream(fixture->path);
	snprintf(path, sizeof(path), "%s/fifo", fixture->directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_stream(path);
	assert_stream("-");
}

static void test_what_is_no_file(void **state)
{
	struct fixture *fixture = *state;
	struct pfw_blocks blocks;

	assert_int_equal(pfw_blocks_find(&blocks, fixture->directory), -EISDIR);
	assert_int_equal(pfw_blocks_find(&blocks, "/dev/zero"), -ENODEV);
	assert_int_equal(pfw_blocks_find(&blocks, fixture->path), -ENOENT);
}

/* ---- traces ---- */

static void process_line(char *line, size_t size, const char *run, int rank)
{
	snprintf(
		line, size,
		"{\"id\":0,\"name\":\"process\",\"cat\":\"pfw\",\"pid\":7,\"tid\":7,\"ts\":1000.000,"
		"\"ph\":\"M\",\"args\":{\"format\":1,\"run\":\"%s\",\"rank\":%d}}\n",
		run, rank);
}

/* A trace of a run, written `age` seconds ago. */
static void trace(const struct fixture *fixture, const char *name, const char *run, int rank,
		  int age)
{
	char path[160], line[512];
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = 1795230878 - age } };

	snprintf(path, sizeof(path), "%s/%s", fixture->directory, name);
	process_line(line, sizeof(line), run, rank);
	write_file(path, line, strlen(line));
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

struct said {
	int count;
	char why[128];
};

static void say(void *user, const char *path, const char *why)
{
	struct said *said = user;

	(void)path;
	said->count++;
	snprintf(said->why, sizeof(said->why), "%s", why);
}

static int open_traces(struct pfw_traces *traces, struct said *said, bool all_runs,
		       const char *first, const char *second)
{
	char *arguments[] = { (char *)first, (char *)second };

	*said = (struct said){ 0 };
	return pfw_traces_open(traces, arguments, second ? 2 : 1, all_runs, say, said);
}

static void test_newest_run_by_rank(void **state)
{
	struct fixture *fixture = *state;
	struct pfw_traces traces;
	struct said said;
	char path[128];

	trace(fixture, "b-rank0001.pfw", "new", 1, 10);
	trace(fixture, "c-rank0000.pfw", "new", 0, 20);
	trace(fixture, "a-rank0000.pfw", "old", 0, 100);
	write_file(fixture->path, "{}\n", 3);
	assert_int_equal(open_traces(&traces, &said, false, fixture->directory, NULL), 0);
	assert_int_equal(traces.count, 3);
	assert_int_equal(traces.left_out, 1);
	assert_true(traces.ranks);
	assert_non_null(strstr(traces.file[0].path, "t.pfw")); /* of no run, no rank */
	assert_non_null(strstr(traces.file[1].path, "c-rank0000.pfw"));
	assert_non_null(strstr(traces.file[2].path, "b-rank0001.pfw"));
	assert_string_equal(traces.file[2].head.run, "new");
	pfw_traces_close(&traces);
	assert_int_equal(open_traces(&traces, &said, true, fixture->directory, NULL), 0);
	assert_int_equal(traces.count, 4);
	pfw_traces_close(&traces);
	snprintf(path, sizeof(path), "%s/a-rank0000.pfw", fixture->directory);
	assert_int_equal(open_traces(&traces, &said, false, path, path),
			 0); /* named: taken, once */
	assert_int_equal(traces.count, 1);
	assert_false(traces.ranks);
	pfw_traces_close(&traces);
}

static void test_what_cannot_be_opened_is_said(void **state)
{
	struct fixture *fixture = *state;
	struct pfw_traces traces;
	struct said said;

	assert_int_equal(open_traces(&traces, &said, false, fixture->path, NULL), -ENOENT);
	assert_int_equal(said.count, 1);
	assert_int_equal(open_traces(&traces, &said, false, "/dev/zero", fixture->directory),
			 -ENOENT);
	assert_int_equal(said.count, 2);
	assert_string_equal(said.why, "no *.pfw or *.pfw.gz in this directory");
	write_file(fixture->path, "{}\n", 3);
	assert_int_equal(open_traces(&traces, &said, false, "/dev/zero", fixture->path), 0);
	assert_int_equal(said.count, 1);
	assert_string_equal(said.why, "a device or a socket, not a trace");
	assert_int_equal(traces.count, 1);
	pfw_traces_close(&traces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_text_is_cut_by_the_byte, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_members_say_where_they_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_cannot_be_known_is_a_stream, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_one_look_at_a_member, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_no_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_newest_run_by_rank, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_cannot_be_opened_is_said, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
