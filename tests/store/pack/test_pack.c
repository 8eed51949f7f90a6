/* test_pack.c - sorted lines become members, each line once and in order, by any number of threads;
 * what cannot be written, or is not what was written, is told.
 */
#include "store/pack/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>

#include "store/line/hash.h"
#include "store/read/blocks.h"
#include "store/read/stream.h"
#include "trace_files.h"

#define BASE_NS 1795230878000000000
#define LINES 30000
#define CHUNK 700 /* lines that come together, about as from a merge of several files */

/* A pack, and what it was given. */
struct packing {
	struct pfw_pool *pool;
	struct pfw_pack *pack;
	int fd;
	struct pfw_buffer text;
	uint64_t checksum, metadata;
};

/* ---- lines ---- */

/* Line `i`, at the time `i` µs; of every hundred one is metadata.  Longer ones among them. */
static void put_line(struct pfw_buffer *text, size_t i, size_t pad)
{
	assert_int_equal(pfw_buffer_room(text, text->bytes + pad + 400), 0);
	text->bytes += (size_t)sprintf(
		text->data + text->bytes,
		"{\"id\":%zu,\"name\":\"pread\",\"cat\":\"POSIX\",\"pid\":7,\"tid\":7,"
		"\"ts\":%" PRId64
		".000,\"dur\":2.000,\"ph\":\"%s\",\"args\":{\"fname\":\"/data/%0*zu\"}}\n",
		i, BASE_NS / 1000 + (int64_t)i, i % 100 == 50 ? "M" : "X",
		(int)(pad + i * 7919 % 300), i * 2654435761u);
}

/* Take lines [first, end) into a pack, and into packing->text to compare with. */
static int give(struct packing *packing, size_t first, size_t end, size_t pad)
{
	const struct pfw_rows_want want = { .since_ns = INT64_MIN, .until_ns = INT64_MAX };
	struct pfw_problems problems = { 0 };
	struct pfw_rows rows = { 0 };
	int error;

	for (size_t i = first; i < end; i++)
		put_line(&rows.text, i, pad);
	assert_int_equal(pfw_buffer_room(&packing->text, packing->text.bytes + rows.text.bytes), 0);
	memcpy(packing->text.data + packing->text.bytes, rows.text.data, rows.text.bytes);
	packing->text.bytes += rows.text.bytes;
	assert_int_equal(pfw_rows_scan(&rows, 0, &want, &problems), 0);
	assert_int_equal(rows.count, end - first);
	assert_int_equal(problems.count, 0);
	packing->checksum += rows.checksum;
	packing->metadata += rows.metadata;
	/* In two pieces, the second empty now and then. */
	error = pfw_pack_rows(packing->pack, &rows, 0, rows.count - first % 2);
	if (!error)
		error = pfw_pack_rows(packing->pack, &rows, rows.count - first % 2, first % 2);
	pfw_rows_free(&rows);
	return error;
}

/* Lines [0, end) that are still in the file at `path`, each `step` lines behind the one before. */
static int give_in_place(struct packing *packing, const char *path, size_t end, size_t step)
{
	const struct pfw_rows_want want = { .since_ns = INT64_MIN, .until_ns = INT64_MAX };
	struct pfw_problems problems = { 0 };
	struct pfw_rows rows = { .path = path, .file = 3 };
	struct pfw_buffer text = { 0 };
	int error = 0;

	for (size_t i = 0; i < end; i++)
		put_line(&rows.text, i, 0);
	write_file(path, rows.text.data, rows.text.bytes);
	assert_int_equal(pfw_rows_scan(&rows, 0, &want, &problems), 0);
	assert_int_equal(pfw_buffer_room(&packing->text, rows.text.bytes), 0);
	text = rows.text;
	rows.text = (struct pfw_buffer){ 0 };
	for (size_t i = 0; i < end && !error; i++) {
		const struct pfw_row *row = &rows.row[i * step % end];

		memcpy(packing->text.data + packing->text.bytes, text.data + row->at, row->bytes);
		packing->text.bytes += row->bytes;
		error = pfw_pack_rows(packing->pack, &rows, i * step % end, 1);
	}
	packing->checksum = rows.checksum;
	packing->metadata = rows.metadata;
	pfw_buffer_free(&text);
	pfw_rows_free(&rows);
	return error ? error : pfw_pack_flush(packing->pack);
}

static int give_all(struct packing *packing, size_t lines)
{
	int error = 0;

	for (size_t i = 0; i < lines && !error; i += CHUNK)
		error = give(packing, i, i + CHUNK < lines ? i + CHUNK : lines, 0);
	return error ? error : pfw_pack_flush(packing->pack);
}

/* ---- a pack ---- */

static void begin(struct packing *packing, const char *path, unsigned jobs, int level)
{
	*packing = (struct packing){ .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) };
	assert_true(packing->fd >= 0);
	assert_int_equal(pfw_pool_open(&packing->pool, jobs), 0);
	assert_int_equal(pfw_pack_open(&packing->pack, packing->fd, level, packing->pool), 0);
}

static void end(struct packing *packing)
{
	pfw_pack_close(packing->pack);
	pfw_pool_close(packing->pool);
	pfw_buffer_free(&packing->text);
	close(packing->fd);
}

static int verify(struct packing *packing)
{
	return pfw_pack_verify(packing->pack, NULL);
}

/* The file is the text, by zlib's own reader. */
static void expect_text(const char *path, const struct pfw_buffer *text)
{
	gzFile file = gzopen(path, "rb");
	char *found = malloc(text->bytes + 2);
	size_t bytes = 0;
	int got;

	assert_non_null(file);
	assert_non_null(found);
	while ((got = gzread(file, found + bytes, (unsigned)(text->bytes + 1 - bytes))) > 0)
		bytes += (size_t)got;
	assert_int_equal(got, 0);
	assert_int_equal(gzclose(file), Z_OK);
	assert_int_equal(bytes, text->bytes);
	assert_memory_equal(found, text->data, bytes);
	free(found);
}

/* Every member says what it holds, and they are in order. */
static void expect_marks(const char *path, const struct packing *packing, uint64_t lines)
{
	const struct pfw_pack_sum *sum = pfw_pack_sum(packing->pack);
	struct pfw_blocks blocks;
	struct pfw_marks marks;
	uint64_t found = 0;

	assert_int_equal(pfw_blocks_find(&blocks, path), 0);
	assert_int_equal(blocks.layout, PFW_LAYOUT_MEMBERS);
	assert_int_equal(blocks.count, sum->members);
	for (size_t i = 0; i < blocks.count; i++)
		found += blocks.block[i].lines;
	assert_int_equal(found, lines);
	assert_int_equal(pfw_marks_read(&marks, path, &blocks), 0);
	assert_true(marks.marked && marks.sorted && marks.one_pid && !marks.cut);
	assert_true(marks.lines == lines && marks.metadata == packing->metadata &&
		    marks.checksum == packing->checksum);
	pfw_blocks_free(&blocks);
}

static void expect_sum(const struct packing *packing, uint64_t lines)
{
	const struct pfw_pack_sum *sum = pfw_pack_sum(packing->pack);

	assert_true(sum->lines == lines && sum->metadata == packing->metadata);
	assert_true(sum->checksum == packing->checksum);
	assert_int_equal(sum->text_bytes, packing->text.bytes);
	assert_int_equal(sum->bytes, lseek(packing->fd, 0, SEEK_END));
	assert_int_equal(sum->copied, 0);
}

/* ---- tests ---- */

static void every_line_once_and_in_order(void **state)
{
	const struct fixture *fixture = *state;
	static const unsigned jobs[] = { 1, 2, 7 };
	uint64_t first = 0;

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		const struct pfw_pack_sum *sum;
		struct packing packing;

		unlink(fixture->path);
		begin(&packing, fixture->path, jobs[i], PFW_LEVEL_FAST);
		assert_int_equal(give_all(&packing, LINES), 0);
		sum = pfw_pack_sum(packing.pack);
		expect_sum(&packing, LINES);
		assert_true(sum->members >= packing.text.bytes / PFW_GZIP_TEXT_MAX);
		assert_int_equal(sum->least_ns, BASE_NS);
		assert_int_equal(sum->greatest_ns, BASE_NS + (LINES - 1 + 2) * 1000);
		expect_text(fixture->path, &packing.text);
		expect_marks(fixture->path, &packing, LINES);
		assert_int_equal(verify(&packing), 0);
		/* The number of threads is not seen in the file. */
		first = first ? first : pfw_linehash((const char *)&sum->bytes, sizeof(sum->bytes));
		assert_true(first == pfw_linehash((const char *)&sum->bytes, sizeof(sum->bytes)));
		end(&packing);
	}
}

static void levels_are_smaller_the_higher(void **state)
{
	const struct fixture *fixture = *state;
	static const int levels[] = { PFW_LEVEL_FAST, 1, 6, PFW_LEVEL_MOST };
	uint64_t bytes[4];

	for (int i = 0; i < 4; i++) {
		struct packing packing;

		unlink(fixture->path);
		begin(&packing, fixture->path, 3, levels[i]);
		assert_int_equal(give_all(&packing, LINES / 4), 0);
		expect_text(fixture->path, &packing.text);
		assert_int_equal(verify(&packing), 0);
		bytes[i] = pfw_pack_sum(packing.pack)->bytes;
		end(&packing);
	}
	assert_true(bytes[2] < bytes[1] && bytes[3] < bytes[2] && bytes[3] < bytes[0]);
}

/* Forwards, backwards, and in no order. */
static void lines_that_are_still_in_their_file(void **state)
{
	const struct fixture *fixture = *state;
	static const size_t step[] = { 1, LINES - 1, 7919 };

	for (size_t i = 0; i < sizeof(step) / sizeof(step[0]); i++) {
		struct packing packing;
		char path[128];

		snprintf(path, sizeof(path), "%s.text", fixture->path);
		unlink(fixture->path);
		begin(&packing, fixture->path, 3, PFW_LEVEL_FAST);
		assert_int_equal(give_in_place(&packing, path, LINES, step[i]), 0);
		expect_sum(&packing, LINES);
		expect_text(fixture->path, &packing.text);
		assert_int_equal(verify(&packing), 0);
		end(&packing);
	}
}

static void nothing_makes_an_empty_file(void **state)
{
	const struct fixture *fixture = *state;
	struct packing packing;

	begin(&packing, fixture->path, 2, PFW_LEVEL_FAST);
	assert_int_equal(pfw_pack_flush(packing.pack), 0);
	assert_int_equal(verify(&packing), 0);
	expect_sum(&packing, 0);
	assert_int_equal(pfw_pack_sum(packing.pack)->members, 0);
	assert_true(pfw_pack_sum(packing.pack)->least_ns > pfw_pack_sum(packing.pack)->greatest_ns);
	end(&packing);
}

/* A line that is longer than a member's text has one of its own. */
static void long_lines(void **state)
{
	const struct fixture *fixture = *state;
	struct packing packing;

	begin(&packing, fixture->path, 2, PFW_LEVEL_FAST);
	assert_int_equal(give(&packing, 0, 3, 0), 0);
	assert_int_equal(give(&packing, 3, 4, 3 * PFW_GZIP_TEXT_MAX), 0);
	assert_int_equal(give(&packing, 4, 7, 0), 0);
	assert_int_equal(pfw_pack_flush(packing.pack), 0);
	assert_int_equal(pfw_pack_sum(packing.pack)->members, 3);
	expect_text(fixture->path, &packing.text);
	expect_marks(fixture->path, &packing, 7);
	assert_int_equal(verify(&packing), 0);
	end(&packing);
}

static void a_cut_says_so(void **state)
{
	const struct fixture *fixture = *state;
	struct pfw_blocks blocks;
	struct pfw_marks marks;
	struct packing packing;

	begin(&packing, fixture->path, 1, PFW_LEVEL_FAST);
	pfw_pack_cut(packing.pack);
	assert_int_equal(give_all(&packing, 100), 0);
	assert_int_equal(pfw_blocks_find(&blocks, fixture->path), 0);
	assert_int_equal(pfw_marks_read(&marks, fixture->path, &blocks), 0);
	assert_true(marks.marked && marks.cut);
	pfw_blocks_free(&blocks);
	end(&packing);
}

/* Wherever it fails, it is told, and the threads' work is put away. */
static void the_sink_fails(void **state)
{
	const struct fixture *fixture = *state;
	struct rlimit limit, before;
	struct packing packing;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	for (rlim_t most = 0; most < 400000; most = most * 3 + 1) {
		unlink(fixture->path);
		begin(&packing, fixture->path, 3, PFW_LEVEL_FAST);
		limit = (struct rlimit){ .rlim_cur = most, .rlim_max = before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		assert_int_equal(give_all(&packing, LINES), -EFBIG);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		end(&packing);
	}
	begin(&packing, "/dev/full", 3, PFW_LEVEL_FAST);
	assert_int_equal(give_all(&packing, LINES), -ENOSPC);
	end(&packing);
}

static void left_in_the_middle(void **state)
{
	const struct fixture *fixture = *state;
	struct packing packing;

	begin(&packing, fixture->path, 3, PFW_LEVEL_FAST);
	for (size_t i = 0; i < LINES / 2; i += CHUNK)
		assert_int_equal(give(&packing, i, i + CHUNK, 0), 0);
	end(&packing);
}

/* ---- reading back ---- */

static void change(int fd, off_t at, unsigned char mask)
{
	unsigned char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= mask;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

/* A single compressed byte may stand for the same text: a match further back, of equal bytes. */
static void change_eight(int fd, off_t at, unsigned char mask)
{
	for (int i = 0; i < 8; i++)
		change(fd, at + i, mask);
}

/* Any byte of any member: its header and what that says of its lines, its text, its CRC. */
static void what_is_not_what_was_written_is_found(void **state)
{
	const struct fixture *fixture = *state;
	struct packing packing;
	struct pfw_blocks blocks;
	off_t bytes;

	begin(&packing, fixture->path, 2, PFW_LEVEL_FAST);
	assert_int_equal(give_all(&packing, LINES / 3), 0);
	assert_int_equal(pfw_blocks_find(&blocks, fixture->path), 0);
	assert_true(blocks.count > 2);
	for (size_t i = 0; i < blocks.count; i++) {
		const struct pfw_block *block = &blocks.block[i];
		const off_t first = (off_t)block->at, last = first + (off_t)block->bytes - 1;
		const off_t at[] = { first,	 first + 1,
				     first + 21, first + PFW_MEMBER_HEADER_BYTES - 1,
				     last - 7,	 last };
		const off_t packed[] = { first + PFW_MEMBER_HEADER_BYTES + 100,
					 (first + last) / 2 };

		for (size_t k = 0; k < sizeof(at) / sizeof(at[0]); k++) {
			change(packing.fd, at[k], 0x15);
			assert_int_equal(verify(&packing), -EBADMSG);
			change(packing.fd, at[k], 0x15);
		}
		for (size_t k = 0; k < sizeof(packed) / sizeof(packed[0]); k++) {
			change_eight(packing.fd, packed[k], 0x15);
			assert_int_equal(verify(&packing), -EBADMSG);
			change_eight(packing.fd, packed[k], 0x15);
		}
	}
	assert_int_equal(verify(&packing), 0);
	bytes = lseek(packing.fd, 0, SEEK_END);
	assert_int_equal(ftruncate(packing.fd, bytes - 1), 0);
	assert_int_equal(verify(&packing), -EIO);
	pfw_blocks_free(&blocks);
	end(&packing);
}

/* Whole members, but not those that were written there. */
static void members_that_changed_places(void **state)
{
	const struct fixture *fixture = *state;
	struct packing packing;
	char *one, *other;
	size_t bytes;

	begin(&packing, fixture->path, 1, PFW_LEVEL_FAST);
	/* Two of the same length: a digit differs. */
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(give(&packing, 4 + i, 5 + i, 0), 0);
		assert_int_equal(pfw_pack_flush(packing.pack), 0);
	}
	bytes = pfw_pack_sum(packing.pack)->bytes;
	one = malloc(bytes);
	other = malloc(bytes);
	assert_int_equal(pread(packing.fd, one, bytes, 0), bytes);
	assert_int_equal(verify(&packing), 0);
	/* The second in the place of the first. */
	unlink(fixture->path);
	memcpy(other, one + bytes / 2, bytes - bytes / 2);
	memcpy(other + bytes - bytes / 2, one, bytes / 2);
	assert_int_equal(pwrite(packing.fd, other, bytes, 0), bytes);
	assert_int_equal(verify(&packing), -EBADMSG);
	free(one);
	free(other);
	end(&packing);
}

static void reading_back_can_be_stopped(void **state)
{
	const struct fixture *fixture = *state;
	_Atomic bool stop = false;
	struct packing packing;

	begin(&packing, fixture->path, 2, PFW_LEVEL_FAST);
	assert_int_equal(give_all(&packing, LINES), 0);
	assert_int_equal(pfw_pack_verify(packing.pack, &stop), 0);
	stop = true;
	assert_int_equal(pfw_pack_verify(packing.pack, &stop), -EINTR);
	end(&packing);
}

/* ---- members as they stand ---- */

/* Copy all members of a file, with lines of our own before and behind. */
static int copy(struct packing *packing, const char *from, const struct pfw_blocks *blocks)
{
	unsigned char header[PFW_MEMBER_HEADER_BYTES];
	int fd = open(from, O_RDONLY), error = 0;

	assert_true(fd >= 0);
	for (size_t i = 0; i < blocks->count && !error; i++) {
		struct pfw_sorted_mark mark;

		assert_int_equal(pread(fd, header, sizeof(header), (off_t)blocks->block[i].at),
				 sizeof(header));
		assert_int_equal(pfw_sorted_mark_read(header, sizeof(header), &mark), 0);
		error = pfw_pack_member(packing->pack, from, &blocks->block[i], &mark);
	}
	close(fd);
	return error ? error : pfw_pack_flush(packing->pack);
}

static void members_are_copied(void **state)
{
	const struct fixture *fixture = *state;
	struct packing packing, other;
	struct pfw_blocks blocks;
	char second[128];

	snprintf(second, sizeof(second), "%s.2", fixture->path);
	begin(&packing, fixture->path, 2, PFW_LEVEL_FAST);
	assert_int_equal(give_all(&packing, LINES), 0);
	assert_int_equal(pfw_blocks_find(&blocks, fixture->path), 0);
	begin(&other, second, 3, PFW_LEVEL_FAST);
	assert_int_equal(copy(&other, fixture->path, &blocks), 0);
	assert_int_equal(pfw_pack_sum(other.pack)->copied, blocks.count);
	assert_int_equal(pfw_pack_sum(other.pack)->lines, LINES);
	assert_true(pfw_pack_sum(other.pack)->checksum == packing.checksum);
	expect_text(second, &packing.text);
	assert_int_equal(verify(&other), 0);
	change(other.fd, lseek(other.fd, 0, SEEK_END) / 2, 1);
	assert_int_equal(verify(&other), -EBADMSG);
	end(&other);
	/* A file that has become shorter meanwhile. */
	assert_int_equal(ftruncate(packing.fd, lseek(packing.fd, 0, SEEK_END) - 1), 0);
	begin(&other, second, 3, PFW_LEVEL_FAST);
	assert_int_equal(copy(&other, fixture->path, &blocks), -EIO);
	end(&other);
	pfw_blocks_free(&blocks);
	end(&packing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(every_line_once_and_in_order),
		TEST(levels_are_smaller_the_higher),
		TEST(lines_that_are_still_in_their_file),
		TEST(nothing_makes_an_empty_file),
		TEST(long_lines),
		TEST(a_cut_says_so),
		TEST(the_sink_fails),
		TEST(left_in_the_middle),
		TEST(what_is_not_what_was_written_is_found),
		TEST(members_that_changed_places),
		TEST(reading_back_can_be_stopped),
		TEST(members_are_copied),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
