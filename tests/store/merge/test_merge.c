/* test_merge.c - lines come out in order, each once, whatever order they stood in and however little
 * memory there is.
 */
#include "store/merge/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <unistd.h>

#include "store/line/hash.h"
#include "store/sys/pool.h"
#include "trace_files.h"

#define FILES 3
#define BASE_NS 1795230878000000000

enum order { SORTED, REVERSED, SHUFFLED, STRAGGLERS };
enum kind { TEXT, MEMBERS, STREAM };

/* What a merge gave. */
struct seen {
	int64_t ts_ns;
	uint64_t order;
	uint64_t lines, checksum, metadata, problems, members;
	uint64_t in_place;   /* lines whose text was left in its file */
	uint64_t stop_after; /* lines; 0: never */
	_Atomic bool stop;
};

/* The text of a row, in memory or from its file. */
static const char *text_of(const struct pfw_rows *rows, const struct pfw_row *row, char *room)
{
	int fd;

	if (!rows->path)
		return rows->text.data + row->at;
	fd = open(rows->path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, room, row->bytes, (off_t)(rows->path_at + row->at)), row->bytes);
	close(fd);
	return room;
}

static int take_rows(void *user, const struct pfw_rows *rows, size_t first, size_t count)
{
	struct seen *seen = user;
	char room[512];

	seen->in_place += rows->path ? count : 0;

	for (size_t i = first; i < first + count; i++) {
		const struct pfw_row *row = &rows->row[i];
		const char *text = text_of(rows, row, room);

		assert_true(row->ts_ns > seen->ts_ns ||
			    (row->ts_ns == seen->ts_ns && row->order > seen->order));
		assert_int_equal(text[row->bytes - 1], '\n');
		assert_true(pfw_linehash(text, row->bytes - 1) == row->hash);
		seen->ts_ns = row->ts_ns;
		seen->order = row->order;
		seen->checksum += row->hash;
		seen->lines++;
	}
	seen->stop |= seen->stop_after && seen->lines >= seen->stop_after;
	return 0;
}

static int take_metadata(void *user, size_t file, const char *line, size_t bytes)
{
	struct seen *seen = user;

	(void)file;
	assert_int_equal(line[bytes - 1], '\n');
	seen->metadata++;
	return 0;
}

static void take_problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct seen *seen = user;

	(void)file;
	(void)problem;
	seen->problems++;
}

/* ---- files ---- */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

/* The time of line `i` of `count`, in an order that makes sorting hard in its own way. */
static int64_t time_of(enum order order, size_t i, size_t count, uint64_t *state)
{
	size_t step = i;

	if (order == REVERSED)
		step = count - i;
	else if (order == SHUFFLED)
		step = next_random(state) % count;
	else if (order == STRAGGLERS && i % 1000 == 999) /* a span as long as the trace */
		step = 1;
	return BASE_NS + (int64_t)step * 1000;
}

static size_t put_line(char *out, size_t i, size_t file, int64_t ts_ns)
{
	return (size_t)sprintf(out,
			       "{\"id\":%zu,\"name\":\"pread\",\"cat\":\"POSIX\",\"pid\":%zu,"
			       "\"tid\":%zu,\"ts\":%" PRId64 ".%03d,\"dur\":1.000,\"ph\":\"%s\","
			       "\"args\":{\"fname\":\"/data/%0200zu\"}}\n",
			       i, 100 + file, 100 + file, ts_ns / 1000, (int)(ts_ns % 1000),
			       i % 100 == 7 ? "M" : "X", i);
}

/* A file of these lines; its checksum is added to *checksum. */
static void make_file(const char *path, enum kind kind, enum order order, size_t file, size_t count,
		      uint64_t *checksum)
{
	static const int member_lines = 500;
	FILE *out = kind == STREAM ? NULL : fopen(path, "w");
	gzFile packed = kind == STREAM ? gzopen(path, "w1") : NULL;
	char *text = malloc(member_lines * 512), line[512];
	struct pfw_gzip_summary summary = { .least_ns = UINT64_MAX };
	size_t used = 0, room = pfw_gzip_bound(member_lines * 512);
	unsigned char *member = malloc(room);
	uint64_t state = 88172645463325252u + file;
	struct pfw_gzip *gzip;

	assert_int_equal(pfw_gzip_open(&gzip), 0);
	for (size_t i = 0; i < count; i++) {
		int64_t ts_ns = time_of(order, i, count, &state);
		size_t bytes = put_line(line, i, file, ts_ns);

		*checksum += pfw_linehash(line, bytes - 1);
		if (kind == STREAM)
			assert_int_equal(gzwrite(packed, line, (unsigned)bytes), bytes);
		memcpy(text + used, line, bytes);
		used += bytes;
		summary.lines++;
		if ((uint64_t)ts_ns < summary.least_ns)
			summary.least_ns = (uint64_t)ts_ns;
		if ((uint64_t)ts_ns + 1000 > summary.greatest_ns)
			summary.greatest_ns = (uint64_t)ts_ns + 1000;
		if (summary.lines < member_lines && i + 1 < count)
			continue;
		if (kind == TEXT)
			assert_int_equal(fwrite(text, 1, used, out), used);
		if (kind == MEMBERS) {
			int64_t made = pfw_gzip_member(gzip, member, room, text, used, &summary);

			assert_true(made > 0);
			assert_int_equal(fwrite(member, 1, (size_t)made, out), made);
		}
		summary = (struct pfw_gzip_summary){ .least_ns = UINT64_MAX };
		used = 0;
	}
	pfw_gzip_close(gzip);
	free(member);
	free(text);
	assert_int_equal(out ? fclose(out) : gzclose(packed), 0);
}

/* ---- merging ---- */

struct world {
	struct pfw_merge_file file[FILES];
	struct pfw_blocks blocks[FILES];
	char path[FILES][128];
	struct pfw_pool *pool;
	struct seen seen;
	struct pfw_merge merge;
	uint64_t lines, checksum;
};

static void open_world(struct world *world, const char *directory, enum kind kind, enum order order,
		       size_t count)
{
	memset(world, 0, sizeof(*world));
	assert_int_equal(pfw_pool_open(&world->pool, 2), 0);
	for (size_t i = 0; i < FILES; i++) {
		snprintf(world->path[i], sizeof(world->path[i]), "%s/%zu.pfw%s", directory, i,
			 kind == TEXT ? "" : ".gz");
		make_file(world->path[i], kind, order, i, count, &world->checksum);
		assert_int_equal(pfw_blocks_find(&world->blocks[i], world->path[i]), 0);
		assert_int_equal(world->blocks[i].layout, kind == TEXT	    ? PFW_LAYOUT_TEXT
							  : kind == MEMBERS ? PFW_LAYOUT_MEMBERS
									    : PFW_LAYOUT_STREAM);
		world->file[i] = (struct pfw_merge_file){ .path = world->path[i],
							  .blocks = &world->blocks[i],
							  .since_ns = INT64_MIN,
							  .until_ns = INT64_MAX };
	}
	world->lines = FILES * count;
	world->seen.ts_ns = INT64_MIN;
	world->merge = (struct pfw_merge){ .file = world->file,
					   .count = FILES,
					   .pool = world->pool,
					   .budget = 64 << 20,
					   .directory = directory,
					   .stop = &world->seen.stop,
					   .user = &world->seen,
					   .rows = take_rows,
					   .metadata = take_metadata,
					   .problem = take_problem };
}

static void close_world(struct world *world)
{
	for (size_t i = 0; i < FILES; i++)
		pfw_blocks_free(&world->blocks[i]);
	pfw_pool_close(world->pool);
}

static void check_all_seen(struct world *world)
{
	uint64_t lines = 0, checksum = 0;
	const char *where;

	assert_int_equal(pfw_merge_run(&world->merge, &where), 0);
	for (size_t i = 0; i < FILES; i++) {
		lines += world->file[i].sum.lines;
		checksum += world->file[i].sum.checksum;
	}
	assert_int_equal(world->seen.lines, world->lines);
	assert_true(world->seen.checksum == world->checksum);
	assert_int_equal(lines, world->lines);
	assert_true(checksum == world->checksum);
	assert_int_equal(world->seen.metadata, world->lines / 100);
	assert_int_equal(world->seen.problems, 0);
}

static void check_each_order(const struct fixture *fixture, bool in_place)
{
	for (enum kind kind = TEXT; kind <= STREAM; kind++) {
		for (enum order order = SORTED; order <= STRAGGLERS; order++) {
			struct world world;

			open_world(&world, fixture->directory, kind, order, 5000);
			world.merge.in_place = in_place;
			check_all_seen(&world);
			assert_int_equal(world.seen.in_place,
					 in_place && kind == TEXT ? world.lines : 0);
			close_world(&world);
		}
	}
}

static void merge_in_each_order(void **state)
{
	check_each_order(*state, false);
}

/* Lines of text files stay in them, as long as there is memory for what is known of them. */
static void lines_in_place(void **state)
{
	check_each_order(*state, true);
}

/* Without memory for what is known of all of them, some stay and others are merged as ever. */
static void some_in_place(void **state)
{
	struct fixture *fixture = *state;

	for (enum order order = SORTED; order <= STRAGGLERS; order++) {
		struct world world;

		open_world(&world, fixture->directory, TEXT, order, 16000);
		world.merge.in_place = true;
		world.merge.budget = 4 << 20;
		check_all_seen(&world);
		assert_true(world.seen.in_place > 0 && world.seen.in_place < world.lines);
		if (order == SHUFFLED)
			assert_true(world.merge.spilled > 0);
		close_world(&world);
	}
}

/* 16 MB of text in 4 MiB: most orders let blocks go, and what has no order goes to the disk. */
static void little_memory(void **state)
{
	struct fixture *fixture = *state;

	for (enum kind kind = TEXT; kind <= STREAM; kind++) {
		for (enum order order = SORTED; order <= STRAGGLERS; order++) {
			struct world world;

			open_world(&world, fixture->directory, kind, order, 16000);
			world.merge.budget = 4 << 20;
			check_all_seen(&world);
			if (kind == MEMBERS && order == REVERSED)
				assert_int_equal(world.merge.spilled, 0);
			if (order == SHUFFLED)
				assert_true(world.merge.spilled > 0);
			if (kind == MEMBERS && order == STRAGGLERS)
				assert_true(world.merge.drops > 0);
			close_world(&world);
		}
	}
}

static void spilled_again_and_again(void **state)
{
	struct fixture *fixture = *state;
	struct world world;

	/* An emulated processor takes minutes for as many. */
	open_world(&world, fixture->directory, TEXT, SHUFFLED,
		   getenv("PFW_EMULATED") ? 12000 : 30000);
	world.merge.budget = 2 << 20;
	check_all_seen(&world);
	/* Text that compresses well, several times over. */
	assert_true(world.merge.spilled > 1 << 19);
	close_world(&world);
}

static void lines_of_a_window(void **state)
{
	struct fixture *fixture = *state;

	for (enum kind kind = TEXT; kind <= STREAM; kind++) {
		struct world world;
		const char *where;

		open_world(&world, fixture->directory, kind, SORTED, 5000);
		for (size_t i = 0; i < FILES; i++) {
			world.file[i].since_ns = BASE_NS + 1000 * 1000;
			world.file[i].until_ns = BASE_NS + 2000 * 1000;
		}
		assert_int_equal(pfw_merge_run(&world.merge, &where), 0);
		/* Line 999 ends where the window begins; metadata is taken from everywhere. */
		assert_int_equal(world.seen.lines, FILES * (1000 - 10 + 50));
		assert_int_equal(world.seen.metadata, FILES * 50);
		close_world(&world);
	}
}

static void stopped(void **state)
{
	struct fixture *fixture = *state;
	struct world world;
	const char *where;

	open_world(&world, fixture->directory, MEMBERS, SORTED, 5000);
	world.seen.stop_after = 2000;
	assert_int_equal(pfw_merge_run(&world.merge, &where), -EINTR);
	assert_true(world.seen.lines >= 2000 && world.seen.lines < world.lines);
	close_world(&world);
}

static void no_room_for_the_temporary_file(void **state)
{
	struct fixture *fixture = *state;
	struct world world;
	const char *where;

	open_world(&world, fixture->directory, TEXT, SHUFFLED, 16000);
	world.merge.budget = 4 << 20;
	world.merge.directory = "/nowhere/at/all";
	assert_int_equal(pfw_merge_run(&world.merge, &where), -ENOENT);
	assert_string_equal(where, "/nowhere/at/all");
	close_world(&world);
}

/* Commas behind lines are cut off before the lines are given, whichever time a block is read. */
static void lines_with_commas(void **state)
{
	struct fixture *fixture = *state;
	struct world world;
	FILE *file;

	open_world(&world, fixture->directory, TEXT, STRAGGLERS, 16000);
	world.checksum = 0;
	for (size_t i = 0; i < FILES; i++) {
		uint64_t random = 7;

		file = fopen(world.path[i], "w");
		for (size_t j = 0; j < 16000; j++) {
			char line[512];
			size_t bytes = put_line(line, j, i, time_of(STRAGGLERS, j, 16000, &random));

			world.checksum += pfw_linehash(line, bytes - 1);
			fprintf(file, "%.*s%s\n", (int)bytes - 1, line, j % 5 ? "," : "");
		}
		assert_int_equal(fclose(file), 0);
		pfw_blocks_free(&world.blocks[i]);
		assert_int_equal(pfw_blocks_find(&world.blocks[i], world.path[i]), 0);
	}
	check_all_seen(&world);
	close_world(&world);
}

static int take_rows_and_cut(void *user, const struct pfw_rows *rows, size_t first, size_t count)
{
	struct world *world = (struct world *)((char *)user - offsetof(struct world, seen));

	assert_int_equal(truncate(world->path[0], 100), 0);
	return take_rows(user, rows, first, count);
}

/* What was found out about lines is of no use when they are gone. */
static void file_that_is_cut_meanwhile(void **state)
{
	struct fixture *fixture = *state;
	struct world world;
	const char *where;

	open_world(&world, fixture->directory, TEXT, SORTED, 16000);
	world.merge.rows = take_rows_and_cut;
	assert_int_equal(pfw_merge_run(&world.merge, &where), -ESTALE);
	assert_string_equal(where, world.path[0]);
	close_world(&world);
}

static void header_that_lies(void **state)
{
	struct fixture *fixture = *state;
	struct world world;
	unsigned char header[PFW_GZIP_HEADER_BYTES];
	struct pfw_gzip_summary summary;
	const char *where;
	FILE *file;

	open_world(&world, fixture->directory, MEMBERS, SORTED, 5000);
	/* The second member of the first file says that it begins far later than it does. */
	file = fopen(world.path[0], "r+");
	assert_int_equal(fseek(file, (long)world.blocks[0].block[1].at, SEEK_SET), 0);
	assert_int_equal(fread(header, sizeof(header), 1, file), 1);
	assert_int_equal(pfw_gzip_read_summary(header, sizeof(header), &summary), 0);
	summary.least_ns = BASE_NS + 4900 * 1000;
	summary.greatest_ns = BASE_NS + 5000 * 1000;
	pfw_gzip_put_header(header, &summary, PFW_GZIP_FASTEST, 0);
	assert_int_equal(fseek(file, (long)world.blocks[0].block[1].at, SEEK_SET), 0);
	assert_int_equal(fwrite(header, sizeof(header), 1, file), 1);
	fclose(file);
	pfw_blocks_free(&world.blocks[0]);
	assert_int_equal(pfw_blocks_find(&world.blocks[0], world.path[0]), 0);
	assert_int_equal(world.blocks[0].block[1].least_ns, BASE_NS + 4900 * 1000);
	assert_int_equal(pfw_merge_run(&world.merge, &where), -ESTALE);
	world.seen = (struct seen){ .ts_ns = INT64_MIN };
	world.merge.distrust = true;
	check_all_seen(&world);
	close_world(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(merge_in_each_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lines_in_place, set_up, tear_down),
		cmocka_unit_test_setup_teardown(some_in_place, set_up, tear_down),
		cmocka_unit_test_setup_teardown(little_memory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(spilled_again_and_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lines_of_a_window, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stopped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_room_for_the_temporary_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lines_with_commas, set_up, tear_down),
		cmocka_unit_test_setup_teardown(file_that_is_cut_meanwhile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(header_that_lies, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
