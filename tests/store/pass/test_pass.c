/* test_pass.c - one pass over traces by several threads: every line once, in order, and told what
 * is wrong, whatever the file holds and does meanwhile. */
#include "store/pass/pass.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "trace_files.h"

#define IDS_MAX 200000

/* What a pass gave: the ids of its lines in the order of done(). */
struct given {
	uint32_t *id;
	size_t count, blocks;
	size_t file, number; /* of the block before */
	int problems;
	uint64_t more;
	struct pfw_scan_problem problem[40];
	uint64_t told, all; /* progress */
	/* What to do meanwhile. */
	size_t fail_at;	 /* work() fails in that block of the first file, from 1 */
	const char *cut; /* a file to be cut in the first block's work() */
	bool skip_odd;	 /* want() only every second block */
	bool stop_soon;
	size_t pause_each; /* done() pauses after so many blocks */
	size_t pauses;
	_Atomic bool stop;
	/* The most blocks of a group; 0: no groups. */
	size_t group;
	struct {
		size_t file, next;
		bool open;
	} worker[8];
	_Atomic size_t joined;
};

struct ids {
	size_t count;
	uint32_t id[];
};

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct given *given = user;

	(void)file;
	return !given->skip_odd || block->at / PFW_BLOCK_TEXT % 2 == 0;
}

static bool joins(void *user, size_t file, const struct pfw_block *block, bool first)
{
	struct given *given = user;

	(void)file;
	(void)block;
	given->joined += !first;
	return given->joined % given->group;
}

/* A worker has all blocks of a group, in order. */
static void assert_group(struct given *given, unsigned worker, const struct pfw_pass_block *block)
{
	if (given->worker[worker].open) {
		assert_int_equal(block->file, given->worker[worker].file);
		assert_int_equal(block->number, given->worker[worker].next);
	}
	given->worker[worker].file = block->file;
	given->worker[worker].next = block->number + 1;
	given->worker[worker].open = !block->last;
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	struct given *given = user;
	struct pfw_pass_lines lines;
	struct ids *ids = malloc(sizeof(*ids) + block->bytes / 2 * sizeof(ids->id[0]));

	assert_non_null(ids);
	if (!given->skip_odd)
		assert_group(given, worker, block);
	ids->count = 0;
	block->result = ids;
	pfw_pass_lines_init(&lines, block);
	while (pfw_pass_lines_next(&lines))
		ids->id[ids->count++] = (uint32_t)lines.entry.id;
	if (given->cut && block->number == 0)
		assert_int_equal(truncate(given->cut, PFW_BLOCK_TEXT * 5 / 2), 0);
	return given->fail_at && block->number + 1 == given->fail_at ? -EXDEV : 0;
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct given *given = user;
	struct ids *ids = block->result;

	if (given->blocks++)
		assert_true(block->file > given->file ||
			    (block->file == given->file && block->number > given->number));
	given->file = block->file;
	given->number = block->number;
	assert_true(given->count + ids->count <= IDS_MAX);
	memcpy(given->id + given->count, ids->id, ids->count * sizeof(ids->id[0]));
	given->count += ids->count;
	if (given->stop_soon)
		given->stop = true;
	return given->pause_each && given->blocks % given->pause_each == 0 ? PFW_PASS_PAUSE : 0;
}

static void problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct given *given = user;

	(void)file;
	if (given->problems < 40)
		given->problem[given->problems] = *problem;
	given->problems++;
	given->more += problem->more;
}

static void progress(void *user, uint64_t bytes, uint64_t all)
{
	struct given *given = user;

	assert_true(bytes >= given->told);
	given->told = bytes;
	given->all = all;
}

static void say(void *user, const char *path, const char *why)
{
	(void)user;
	fail_msg("%s: %s", path, why);
}

static void begin(struct given *given)
{
	uint32_t *id = given->id ? given->id : malloc(IDS_MAX * sizeof(*id));

	*given = (struct given){ .id = id };
}

static size_t threads_now(void)
{
	DIR *tasks = opendir("/proc/self/task");
	size_t count = 0;

	assert_non_null(tasks);
	while (readdir(tasks))
		count++;
	closedir(tasks);
	return count;
}

static int run_in_pieces(struct given *given, const struct pfw_pass *pass)
{
	size_t threads = threads_now(), blocks = 0;
	struct pfw_pass_run *run;
	int result;

	assert_int_equal(pfw_pass_open(&run, pass), 0);
	while ((result = pfw_pass_go(run)) == PFW_PASS_PAUSE) {
		/* The kernel lists a joined thread for a moment.  qemu-user begins threads of its own. */
		for (unsigned tries = 0; !getenv("PFW_EMULATED") && threads_now() != threads;
		     tries++) {
			assert_true(tries < 10000);
			usleep(1000);
		}
		assert_true(given->blocks > blocks);
		blocks = given->blocks;
		given->pauses++;
	}
	pfw_pass_close(run);
	return result;
}

static int run(struct given *given, const char *path, unsigned jobs)
{
	char *argument = (char *)path;
	struct pfw_traces traces;
	struct pfw_pass pass = { .traces = &traces,
				 .jobs = jobs,
				 .user = given,
				 .want = want,
				 .joins = given->group ? joins : NULL,
				 .work = work,
				 .done = done,
				 .problem = problem,
				 .progress = progress,
				 .stop = &given->stop };
	int result;

	assert_int_equal(pfw_traces_open(&traces, &argument, 1, true, say, NULL), 0);
	result = given->pause_each ? run_in_pieces(given, &pass) : pfw_pass_run(&pass);
	for (unsigned i = 0; i < 8 && !result; i++)
		assert_false(given->worker[i].open);
	pfw_traces_close(&traces);
	return result;
}

/* ---- text ---- */

/* A small generator of our own: the same numbers on every machine. */
static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* A line of `bytes` bytes with its '\n', at least 40. */
static size_t put_line(char *out, uint32_t id, size_t bytes)
{
	size_t used = (size_t)sprintf(out, "{\"id\":%u,\"ph\":\"M\",\"name\":\"", id);

	memset(out + used, 'x', bytes - 3 - used);
	memcpy(out + bytes - 3, "\"}\n", 3);
	return bytes;
}

/* Lines 0, 1, … of all lengths, some ending or beginning at the border of a block. */
static size_t make_text(char *text, size_t bytes, uint32_t seed, uint32_t *count)
{
	size_t used = 0;

	for (*count = 0; used + 3 * PFW_BLOCK_TEXT < bytes; ++*count) {
		uint32_t kind = next_random(&seed) % 1000;
		size_t left = PFW_BLOCK_TEXT - used % PFW_BLOCK_TEXT, length = 40 + kind;

		if (left >= 40 && left < 1200)
			length = left + next_random(&seed) % 3 - 1;
		else if (kind == 0)
			length = 2 * PFW_BLOCK_TEXT + next_random(&seed) % 1000;
		else if (kind == 1)
			length = 200000;
		used += put_line(text + used, *count, length < 40 ? 40 : length);
	}
	return used;
}

static void assert_all(const struct given *given, uint32_t count)
{
	assert_int_equal(given->count, count);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(given->id[i], i);
	assert_int_equal(given->problems, 0);
	assert_int_equal(given->told, given->all);
}

/* The text as members of ours, of whole lines up to about 64 KiB. */
static size_t pack(unsigned char *out, size_t room, const char *text, size_t bytes)
{
	size_t used = 0;

	while (bytes) {
		size_t part = bytes < 65536 ? bytes : 65536;
		uint32_t lines = 0;
		const char *end = memchr(text + part - 1, '\n', bytes - part + 1);

		part = (size_t)(end + 1 - text);
		for (size_t i = 0; i < part; i++)
			lines += text[i] == '\n';
		used += member(out + used, room - used, text, part, lines);
		text += part;
		bytes -= part;
	}
	return used;
}

/* As a whole, and in groups and pieces of one block and of three. */
static void assert_whole(struct given *given, const char *path, unsigned jobs, uint32_t count)
{
	for (size_t each = 0; each < 4; each += each ? 2 : 1) {
		begin(given);
		given->pause_each = given->group = each;
		assert_int_equal(run(given, path, jobs), 0);
		assert_all(given, count);
		assert_true(!each || given->pauses || given->blocks < each);
	}
}

static void test_every_line_once_in_order(void **state)
{
	struct fixture *fixture = *state;
	enum { ROOM = 24 << 20 };
	char *text = malloc(ROOM);
	unsigned char *packed = malloc(ROOM);
	struct given given = { 0 };

	for (uint32_t seed = 1; seed < 5; seed++) {
		uint32_t count;
		size_t bytes = make_text(text, ROOM, seed, &count), packed_bytes;

		for (unsigned jobs = 1; jobs < 8; jobs += 3) {
			write_file(fixture->path, text, bytes);
			assert_whole(&given, fixture->path, jobs, count);
			packed_bytes = pack(packed, ROOM, text, bytes);
			write_file(fixture->path, packed, packed_bytes);
			assert_whole(&given, fixture->path, jobs, count);
			packed_bytes = member(packed, ROOM, text, bytes, 0);
			write_file(fixture->path, packed, packed_bytes);
			assert_whole(&given, fixture->path, jobs, count);
		}
	}
	free(given.id);
	free(packed);
	free(text);
}

static void test_last_line_without_its_end(void **state)
{
	struct fixture *fixture = *state;
#define LINE(id) "{\"id\":" id ",\"ph\":\"M\",\"name\":\"\"}"
	static const char text[] = "\n" LINE("0") "\r\n[\n" LINE("1");
	struct given given = { 0 };

	for (size_t cut = 0; cut < 3; cut++) {
		begin(&given);
		write_file(fixture->path, text, sizeof(text) - 1 - cut);
		assert_int_equal(run(&given, fixture->path, 2), 0);
		assert_int_equal(given.count, cut ? 1 : 2);
		assert_int_equal(given.problems, cut ? 1 : 0);
		if (cut) {
			assert_int_equal(given.problem[0].line, 4);
			assert_int_equal(given.problem[0].at, sizeof("\n\r\n[\n" LINE("0")) - 1);
			assert_non_null(strstr(given.problem[0].text, "the last line is cut"));
		}
	}
	free(given.id);
}

static void test_nothing_in_it(void **state)
{
	struct fixture *fixture = *state;
	struct given given = { 0 };

	write_file(fixture->path, "", 0);
	begin(&given);
	assert_int_equal(run(&given, fixture->path, 2), 0);
	assert_all(&given, 0);
	free(given.id);
}

static void test_line_that_is_too_long(void **state)
{
	struct fixture *fixture = *state;
	size_t bytes = PFW_SCAN_LINE_MAX + 5 * PFW_BLOCK_TEXT, used = 0, at;
	char *text = malloc(bytes + 2000);
	unsigned char *packed = malloc(bytes);
	struct given given = { 0 };

	for (uint32_t i = 0; i < 10; i++)
		used += put_line(text + used, i, 100);
	at = used;
	used += put_line(text + used, 77, bytes);
	for (uint32_t i = 10; i < 15; i++)
		used += put_line(text + used, i, 100);
	used += (size_t)sprintf(text + used, "bad\n");
	for (int gzip = 0; gzip < 2; gzip++) {
		size_t made = gzip ? member(packed, bytes, text, used, 0) : 0;

		write_file(fixture->path, gzip ? (void *)packed : text, gzip ? made : used);
		begin(&given);
		assert_int_equal(run(&given, fixture->path, 3), 0);
		assert_int_equal(given.count, 15);
		assert_int_equal(given.id[14], 14);
		assert_int_equal(given.problems, 2);
		assert_int_equal(given.problem[0].line, 11);
		assert_int_equal(given.problem[0].at, at);
		assert_non_null(strstr(given.problem[0].text, "a line of 22020095 bytes"));
		assert_int_equal(given.problem[1].line, 17);
		assert_int_equal(given.problem[1].at, used - 4);
	}
	free(given.id);
	free(packed);
	free(text);
}

static void test_bad_lines_are_numbered_and_counted(void **state)
{
	struct fixture *fixture = *state;
	enum { ROOM = 8 << 20 };
	char *text = malloc(ROOM + 64);
	uint32_t count;
	size_t bytes = make_text(text, ROOM, 9, &count);
	struct given given = { 0 };

	bytes += (size_t)sprintf(text + bytes, "{\"a\":}\n");
	write_file(fixture->path, text, bytes);
	begin(&given);
	assert_int_equal(run(&given, fixture->path, 4), 0);
	assert_int_equal(given.count, count);
	assert_int_equal(given.problems, 1);
	assert_int_equal(given.problem[0].line, count + 1);
	assert_int_equal(given.problem[0].at, bytes - 7);
	assert_string_equal(given.problem[0].text, "not a JSON value at character 6");
	begin(&given);
	given.skip_odd = true; /* then nobody knows the numbers */
	assert_int_equal(run(&given, fixture->path, 4), 0);
	assert_true(given.problems == 0 || given.problem[0].line == 0);
	for (size_t i = 0; i < ROOM; i += 2)
		memcpy(text + i, "x\n", 2);
	write_file(fixture->path, text, ROOM);
	begin(&given);
	assert_int_equal(run(&given, fixture->path, 4), 0);
	assert_int_equal(given.count, 0);
	assert_int_equal((uint64_t)given.problems + given.more, ROOM / 2);
	assert_true((size_t)given.problems <= 8 * PFW_PROBLEMS_MAX);
	free(given.id);
	free(text);
}

static void test_file_cut_while_it_is_read(void **state)
{
	struct fixture *fixture = *state;
	enum { ROOM = 16 << 20 };
	char *text = malloc(ROOM);
	uint32_t count;
	size_t bytes = make_text(text, ROOM, 3, &count);
	struct given given = { 0 };

	write_file(fixture->path, text, bytes);
	begin(&given);
	given.cut = fixture->path;
	given.group = 4;
	assert_int_equal(run(&given, fixture->path, 1), 0);
	assert_true(given.count < count && given.count > 0);
	assert_true(given.problems > 0);
	assert_non_null(strstr(given.problem[0].text, "cut"));
	free(given.id);
	free(text);
}

/* ---- members ---- */

/* `count` members of two lines; at[count] = where each begins, and the end. */
static size_t pairs(unsigned char *out, size_t room, uint32_t count, size_t *at)
{
	char text[256];
	size_t used = 0;

	for (uint32_t i = 0; i < count; i++) {
		size_t bytes = put_line(text, 2 * i, 60);

		bytes += put_line(text + bytes, 2 * i + 1, 70);
		at[i] = used;
		used += member(out + used, room - used, text, bytes, 2);
	}
	at[count] = used;
	return used;
}

static void test_damage_costs_one_member(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[4096];
	size_t at[6], total = pairs(bytes, sizeof(bytes), 5, at);
	struct given given = { 0 };

	for (size_t flip = at[2]; flip < at[3]; flip++) {
		bytes[flip] ^= 0x55;
		write_file(fixture->path, bytes, total);
		bytes[flip] ^= 0x55;
		begin(&given);
		assert_int_equal(run(&given, fixture->path, 3), 0);
		/* Nobody minds another time, flag, id or system, or earlier times. */
		if (!strchr("\3\4\5\6\7\10\11\14\15\16\17\30\31\32\33\34\35\36\37"
			    "\40\41\42\43\44\45\46\47",
			    (int)(flip - at[2])) &&
		    !given.problems)
			fail_msg("byte %zu of the member", flip - at[2]);
		assert_true(given.problems || given.count == 10);
		assert_true(given.count >= 8);
		for (uint32_t i = 0; i < 4; i++) {
			assert_int_equal(given.id[i], i);
			assert_int_equal(given.id[given.count - 4 + i], 6 + i);
		}
	}
	free(given.id);
}

static void test_cut_at_every_byte(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[4096];
	size_t at[4], total = pairs(bytes, sizeof(bytes), 3, at);
	struct given given = { 0 };

	for (size_t cut = 2; cut < total; cut++) {
		bool whole = cut == at[1] || cut == at[2];
		size_t behind = cut > at[2] ? at[2] : cut > at[1] ? at[1] : 0;

		write_file(fixture->path, bytes, cut);
		begin(&given);
		assert_int_equal(run(&given, fixture->path, 2), 0);
		assert_int_equal(given.problems, !whole);
		assert_true(given.count >= (size_t)(cut >= at[1] ? 2 : 0) + (cut >= at[2] ? 2 : 0));
		if (!whole) {
			assert_non_null(strstr(given.problem[0].text, "cut"));
			assert_int_equal(given.problem[0].at, behind);
		}
	}
	free(given.id);
}

static void test_members_of_nothing(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[4096];
	size_t at[6], total = pairs(bytes, sizeof(bytes), 2, at), used = total;
	struct given given = { 0 };

	/* The mark of ours needs a line; then it is taken back. */
	used += member(bytes + used, sizeof(bytes) - used, "", 0, 1);
	memset(bytes + total + 20, 0, 4);
	memmove(bytes + used, bytes, total);
	write_file(fixture->path, bytes, used + total);
	begin(&given);
	assert_int_equal(run(&given, fixture->path, 2), 0);
	assert_int_equal(given.count, 8);
	assert_int_equal(given.problems, 0);
	assert_int_equal(given.blocks, 5);
	free(given.id);
}

static void test_headers_that_lie(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[4096];
	size_t at[6], total = pairs(bytes, sizeof(bytes), 5, at);
	struct given given = { 0 };

	bytes[at[1] + 20]++; /* lines */
	write_file(fixture->path, bytes, total);
	begin(&given);
	assert_int_equal(run(&given, fixture->path, 2), 0);
	assert_int_equal(given.count, 10);
	assert_int_equal(given.problems, 1);
	assert_int_equal(given.problem[0].at, at[1]);
	assert_non_null(strstr(given.problem[0].text, "says 3 lines, and there are 2"));
	bytes[at[1] + 20]--;
	/* The second says that the third is part of it: nothing is lost. */
	bytes[at[1] + 16] = (unsigned char)(at[3] - at[1]);
	bytes[at[1] + 17] = (unsigned char)((at[3] - at[1]) >> 8);
	write_file(fixture->path, bytes, total);
	begin(&given);
	assert_int_equal(run(&given, fixture->path, 2), 0);
	assert_int_equal(given.count, 10);
	assert_int_equal(given.problems, 1);
	assert_int_equal(given.problem[0].at, at[1]);
	assert_non_null(strstr(given.problem[0].text, "not as long as"));
	free(given.id);
}

static void test_times_in_headers_are_checked(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[1024];
	struct given given = { 0 };
	size_t total;

	/* OURS ends at 1795230878627639535 ns. */
	for (int more = 0; more < 2; more++) {
		uint64_t greatest = 1795230878627639534 + (uint64_t)more;

		total = member(bytes, sizeof(bytes), OURS "\n", sizeof(OURS), 1);
		for (int i = 0; i < 8; i++)
			bytes[32 + i] = (unsigned char)(greatest >> 8 * i);
		write_file(fixture->path, bytes, total);
		begin(&given);
		assert_int_equal(run(&given, fixture->path, 2), 0);
		assert_int_equal(given.problems, !more);
	}
	free(given.id);
}

static void test_member_of_a_bomb(void **state)
{
	struct fixture *fixture = *state;
	size_t bytes = 256 << 20;
	char *text = malloc(bytes);
	unsigned char *packed = malloc(2 << 20);
	struct given given = { 0 };
	size_t made;

	memset(text, 'x', bytes);
	made = member(packed, 2 << 20, text, bytes, 1);
	free(text);
	for (int lie = 0; lie < 2; lie++) {
		if (lie) /* its length of text, which the CRC does not cover */
			memcpy(packed + made - 4, "\0\1\0", 4);
		write_file(fixture->path, packed, made);
		begin(&given);
		assert_int_equal(run(&given, fixture->path, 2), 0);
		assert_int_equal(given.count, 0);
		assert_true(given.problems >= 1);
	}
	free(given.id);
	free(packed);
}

/* ---- pipes, errors, the end ---- */

struct feed {
	int fd;
	const char *text;
	size_t bytes;
};

static void *feed(void *argument)
{
	struct feed *feed = argument;

	for (size_t used = 0; used < feed->bytes;) {
		size_t left = feed->bytes - used;
		ssize_t put = write(feed->fd, feed->text + used, left < 777 ? left : 777);

		if (put < 0)
			break;
		used += (size_t)put;
	}
	close(feed->fd);
	return NULL;
}

static void test_standard_input(void **state)
{
	enum { ROOM = 6 << 20 };
	char *text = malloc(ROOM);
	uint32_t count;
	size_t bytes = make_text(text, ROOM, 5, &count);
	struct given given = { 0 };
	struct feed writer = { .text = text, .bytes = bytes };
	int ends[2], before = dup(STDIN_FILENO);
	pthread_t thread;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	writer.fd = ends[1];
	assert_int_equal(pthread_create(&thread, NULL, feed, &writer), 0);
	begin(&given);
	assert_int_equal(run(&given, "-", 3), 0);
	pthread_join(thread, NULL);
	given.told = given.all; /* of a pipe nobody knows how much there is */
	assert_all(&given, count);
	dup2(before, STDIN_FILENO);
	close(before);
	free(given.id);
	free(text);
}

static void test_work_that_fails_ends_it(void **state)
{
	struct fixture *fixture = *state;
	enum { ROOM = 16 << 20 };
	char *text = malloc(ROOM);
	uint32_t count;
	size_t bytes = make_text(text, ROOM, 7, &count);
	struct given given = { 0 };

	write_file(fixture->path, text, bytes);
	for (unsigned jobs = 1; jobs < 5; jobs++) {
		begin(&given);
		given.fail_at = 4;
		assert_int_equal(run(&given, fixture->path, jobs), -EXDEV);
		assert_int_equal(given.blocks, 3);
	}
	begin(&given);
	given.stop_soon = true;
	assert_int_equal(run(&given, fixture->path, 3), -EINTR);
	assert_true(given.blocks >= 1 && given.count < count);
	free(given.id);
	free(text);
}

static void test_many_files(void **state)
{
	struct fixture *fixture = *state;
	struct given given = { 0 };

	for (int i = 0; i < 500; i++) {
		char path[160], text[64];
		unsigned char bytes[256];
		size_t used = put_line(text, (uint32_t)i, 50);

		snprintf(path, sizeof(path), "%s/t-%04d.pfw", fixture->directory, i);
		if (i % 3) /* plain, a member of ours, somebody else's */
			used = member(bytes, sizeof(bytes), text, used, i % 3 == 1);
		write_file(path, i % 3 ? (void *)bytes : text, used);
	}
	begin(&given);
	assert_int_equal(run(&given, fixture->directory, 4), 0);
	assert_all(&given, 500);
	free(given.id);
}

/* ---- several files that are read in order ---- */

#define STREAMS 4

/* Files of somebody else's gzip: two whole ones, between them one with a damaged byte and one that is
 * cut. */
static void write_streams(const struct fixture *fixture, char path[STREAMS][160])
{
	enum { ROOM = 8 << 20 };
	char *text = malloc(ROOM);
	unsigned char *packed = malloc(ROOM);

	for (uint32_t i = 0; i < STREAMS; i++) {
		uint32_t count;
		size_t bytes = make_text(text, ROOM, 20 + i, &count);

		bytes = member(packed, ROOM, text, bytes, 0);
		if (i == 1)
			packed[bytes / 2] ^= 0x55;
		if (i == 2)
			bytes -= bytes / 3;
		snprintf(path[i], 160, "%s/t-%u.pfw.gz", fixture->directory, i);
		write_file(path[i], packed, bytes);
	}
	free(packed);
	free(text);
}

/* That `all` goes on behind those ids and problems with what `one` has. */
static void assert_has(const struct given *all, const struct given *one, size_t ids, int problems)
{
	assert_true(ids + one->count <= all->count && problems + one->problems <= all->problems);
	assert_memory_equal(all->id + ids, one->id, one->count * sizeof(one->id[0]));
	for (int i = 0; i < one->problems && problems + i < 40; i++) {
		const struct pfw_scan_problem *a = &all->problem[problems + i];
		const struct pfw_scan_problem *b = &one->problem[i];

		assert_int_equal(a->line, b->line);
		assert_int_equal(a->at, b->at);
		assert_string_equal(a->text, b->text);
	}
}

static void test_streams_together_are_as_alone(void **state)
{
	struct fixture *fixture = *state;
	struct given all = { 0 }, one = { 0 };
	char path[STREAMS][160];

	write_streams(fixture, path);
	for (unsigned jobs = 1; jobs < 8; jobs += 3) {
		size_t ids = 0;
		int problems = 0;

		begin(&all);
		assert_int_equal(run(&all, fixture->directory, jobs), 0);
		for (size_t i = 0; i < STREAMS; i++) {
			begin(&one);
			assert_int_equal(run(&one, path[i], jobs), 0);
			assert_true(one.count > 0 && (one.problems > 0) == (i == 1 || i == 2));
			assert_has(&all, &one, ids, problems);
			ids += one.count;
			problems += one.problems;
		}
		assert_int_equal(all.count, ids);
		assert_int_equal(all.problems, problems);
		assert_int_equal(all.told, all.all);
	}
	free(all.id);
	free(one.id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_line_once_in_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_last_line_without_its_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_in_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_line_that_is_too_long, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bad_lines_are_numbered_and_counted, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_file_cut_while_it_is_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_damage_costs_one_member, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cut_at_every_byte, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_members_of_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_headers_that_lie, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_times_in_headers_are_checked, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_member_of_a_bomb, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_standard_input, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_work_that_fails_ends_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_streams_together_are_as_alone, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
