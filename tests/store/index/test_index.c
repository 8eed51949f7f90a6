/* test_index.c - an index says what the trace says, and only of that trace; damaged, it is refused.
 */
#include "store/index/index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "common/base/order.h"
#include "random.h"
#include "remove_tree.h"
#include "store/index/build.h"
#include "store/pass/pass.h"

#define LINES 20000
#define FILES 300

static char directory[] = "/tmp/test_index-XXXXXX";
static char trace[64], other[64], idx[80];

/* ---- a trace of several blocks ---- */

/* The first and the last tenth have names, files and threads that the rest has not. */
static void write_line(FILE *out, int i)
{
	bool early = i < LINES / 10, late = i >= LINES - LINES / 10;
	int64_t ns = 1000000000000 + (int64_t)i * 5000 + (int64_t)(any() % 4000);
	int64_t dur = late ? 50000000 : (int64_t)(any() % 100000);

	fprintf(out,
		"{\"id\":%d,\"name\":\"%s\",\"cat\":\"POSIX\",\"pid\":7,\"tid\":%d,\"ts\":%" PRId64
		".%03d,\"dur\":%" PRId64 ".%03d,\"ph\":\"X\",\"args\":{\"fname\":\"/data/%s%d\","
		"\"fd\":3,\"ret\":%d,\"count\":65536,\"offset\":%d}}\n",
		i + 1,
		early	    ? "open"
		: late	    ? "fsync"
		: any() % 2 ? "read"
			    : "write",
		early ? 9 : 8, ns / 1000, (int)(ns % 1000), dur / 1000, (int)(dur % 1000),
		late ? "late-" : "f", (int)(any() % FILES), (int)(any() % 65536), i);
	if (i % 1000 == 0)
		fprintf(out,
			"{\"id\":%d,\"name\":\"ProfilerStep#%d\",\"cat\":\"PP\",\"pid\":7,\"tid\":8,"
			"\"ts\":%" PRId64 ",\"dur\":5,\"ph\":\"X\",\"args\":{\"kind\":\"step\"}}\n",
			LINES + i, i / 1000, ns / 1000);
}

static void write_trace(const char *path, int lines)
{
	FILE *out = fopen(path, "w");

	assert_non_null(out);
	fprintf(out, "{\"id\":0,\"name\":\"process\",\"cat\":\"pfw\",\"pid\":7,\"tid\":7,"
		     "\"ts\":1000000000.000,\"ph\":\"M\",\"args\":{\"format\":1,\"run\":\"r\","
		     "\"host\":\"h\",\"rank\":3,\"cmd\":\"'; DROP TABLE name; --\"}}\n");
	for (int i = 0; i < lines; i++)
		write_line(out, i);
	assert_int_equal(fclose(out), 0);
}

static void keep(void *user, size_t file, const struct pfw_index_built *built)
{
	(void)file;
	*(struct pfw_index_built *)user = *built;
}

static void ignore(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	(void)user;
	(void)file;
	(void)problem;
}

static void say(void *user, const char *path, const char *why)
{
	(void)user;
	fail_msg("%s: %s", path, why);
}

static struct pfw_index_built build(const char *path, bool check)
{
	struct pfw_index_built built = { 0 };
	struct pfw_traces traces = { 0 };
	char *argument = (char *)path;
	struct pfw_index_build work = { .traces = &traces,
					.jobs = 2,
					.check = check,
					.user = &built,
					.built = keep,
					.problem = ignore };

	assert_int_equal(pfw_traces_open(&traces, &argument, 1, false, say, NULL), 0);
	assert_int_equal(pfw_index_build(&work), 0);
	pfw_traces_close(&traces);
	return built;
}

static int begin(void **unused)
{
	(void)unused;
	if (!mkdtemp(directory))
		return -1;
	snprintf(trace, sizeof(trace), "%s/t.pfw", directory);
	snprintf(other, sizeof(other), "%s/o.pfw", directory);
	snprintf(idx, sizeof(idx), "%s.idx", trace);
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	return remove_tree(directory);
}

static int fresh(void **unused)
{
	(void)unused;
	random_state = 0x2545f4914f6cdd1d;
	unlink(idx);
	write_trace(trace, LINES);
	return build(trace, false).error;
}

/* ---- what the trace says, line by line ---- */

struct truth {
	struct pfw_summary total;
	struct pfw_summary *block;
	size_t blocks;
};

static int add_block(void *user, unsigned worker, struct pfw_pass_block *block)
{
	struct truth *truth = user;
	struct pfw_pass_lines lines;

	(void)worker;
	assert_true(block->number < truth->blocks);
	pfw_pass_lines_init(&lines, block);
	while (pfw_pass_lines_next(&lines)) {
		pfw_summary_add(&truth->total, &lines.entry);
		pfw_summary_add(&truth->block[block->number], &lines.entry);
	}
	return 0;
}

static void find_truth(struct truth *truth)
{
	struct pfw_traces traces = { 0 };
	char *argument = trace;
	struct pfw_pass pass = {
		.traces = &traces, .jobs = 1, .user = truth, .work = add_block, .problem = ignore
	};

	assert_int_equal(pfw_traces_open(&traces, &argument, 1, false, say, NULL), 0);
	truth->blocks = traces.file[0].blocks.count;
	truth->block = calloc(truth->blocks, sizeof(*truth->block));
	pfw_summary_init(&truth->total);
	for (size_t i = 0; i < truth->blocks; i++)
		pfw_summary_init(&truth->block[i]);
	assert_int_equal(pfw_pass_run(&pass), 0);
	pfw_traces_close(&traces);
	assert_true(truth->blocks > 3);
}

static void release_truth(struct truth *truth)
{
	pfw_summary_release(&truth->total);
	for (size_t i = 0; i < truth->blocks; i++)
		pfw_summary_release(&truth->block[i]);
	free(truth->block);
}

static struct pfw_index *open_index(void)
{
	struct pfw_index *index;
	char why[128];

	if (pfw_index_open(&index, trace, why, sizeof(why)))
		fail_msg("%s", why);
	return index;
}

static void expect_names(const struct pfw_summary *is, const struct pfw_summary *should)
{
	assert_int_equal(is->names, should->names);
	assert_int_equal(is->lines, should->lines);
	assert_int_equal(is->events, should->events);
	assert_int_equal(is->least_ns, should->least_ns);
	assert_int_equal(is->greatest_ns, should->greatest_ns);
	for (uint32_t i = 1; i < should->names; i++) {
		const struct pfw_summary_name *b = &should->name[i];
		struct pfw_summary *found = (struct pfw_summary *)is;
		int64_t row = pfw_summary_name_row(found, b->cat, b->cat_bytes, b->name,
						   b->name_bytes, b->ph);
		const struct pfw_summary_name *a = &is->name[row];

		assert_int_equal(a->count, b->count);
		assert_true(a->sum_ns == b->sum_ns);
		assert_int_equal(a->min_ns, b->min_ns);
		assert_int_equal(a->max_ns, b->max_ns);
		assert_int_equal(a->bytes, b->bytes);
		assert_int_equal(a->durations.total, b->durations.total);
		/* Blocks have no exact durations. */
		for (double quantile = 0; quantile <= 1; quantile += .125) {
			int64_t x = pfw_sketch_quantile(&a->durations, quantile);
			int64_t y = pfw_sketch_quantile(&b->durations, quantile);

			assert_true(llabs(x - y) <= y / 100 + 1);
		}
	}
}

static void expect_files(const struct pfw_summary *is, const struct pfw_summary *should)
{
	assert_int_equal(is->files, should->files);
	for (uint32_t i = 1; i < should->files; i++) {
		const struct pfw_summary_file *b = &should->file[i];
		const struct pfw_summary_file *a = &is->file[pfw_summary_file_row(
			(struct pfw_summary *)is, b->name, b->name_bytes)];

		assert_int_equal(a->lines, b->lines);
		assert_int_equal(a->opens, b->opens);
		assert_int_equal(a->reads, b->reads);
		assert_int_equal(a->writes, b->writes);
		assert_int_equal(a->others, b->others);
		assert_int_equal(a->read_bytes, b->read_bytes);
		assert_int_equal(a->written_bytes, b->written_bytes);
		assert_int_equal(a->open_ns + a->read_ns, b->open_ns + b->read_ns);
		assert_int_equal(a->write_ns + a->other_ns, b->write_ns + b->other_ns);
		assert_int_equal(a->transfers, b->transfers);
		assert_int_equal(a->transfer_ns, b->transfer_ns);
	}
	assert_int_equal(is->file[0].others, should->file[0].others);
	assert_int_equal(is->file[0].reads, should->file[0].reads);
}

static void totals_are_those_of_the_lines(void **unused)
{
	struct pfw_index *index = open_index();
	struct pfw_summary totals;
	struct truth truth;

	(void)unused;
	find_truth(&truth);
	assert_int_equal(pfw_summary_init(&totals), 0);
	assert_int_equal(pfw_index_totals(index, PFW_INDEX_ALL, &totals), 0);
	expect_names(&totals, &truth.total);
	expect_files(&totals, &truth.total);
	assert_int_equal(totals.threads, truth.total.threads);
	assert_int_equal(totals.thread[2].lines, truth.total.thread[2].lines);
	assert_int_equal(totals.steps, 20);
	assert_memory_equal(totals.step, truth.total.step, 20 * sizeof(*totals.step));
	assert_int_equal(totals.processes, 1);
	assert_string_equal(totals.process[0].command, "'; DROP TABLE name; --");
	assert_int_equal(totals.process[0].rank, 3);
	assert_int_equal(pfw_index_meta(index)->blocks, truth.blocks);
	assert_int_equal(pfw_index_meta(index)->lines, truth.total.lines);
	assert_int_equal(pfw_index_meta(index)->sorted, truth.total.sorted);
	pfw_summary_release(&totals);
	release_truth(&truth);
	pfw_index_close(index);
}

static void blocks_are_those_of_the_file(void **unused)
{
	struct pfw_index *index = open_index();
	struct pfw_blocks blocks = { 0 };
	struct truth truth;
	uint64_t at = 0, lines = 0;

	(void)unused;
	find_truth(&truth);
	assert_int_equal(pfw_index_blocks(index, &blocks), 0);
	assert_int_equal(blocks.count, truth.blocks);
	for (size_t i = 0; i < blocks.count; i++) {
		assert_true(blocks.block[i].summed);
		assert_int_equal(blocks.block[i].at, at);
		assert_int_equal(blocks.block[i].lines, truth.block[i].lines);
		assert_int_equal(blocks.block[i].least_ns, truth.block[i].least_ns);
		assert_int_equal(blocks.block[i].greatest_ns, truth.block[i].greatest_ns);
		at += blocks.block[i].bytes;
		lines += blocks.block[i].lines;
	}
	assert_int_equal(lines, truth.total.lines);
	pfw_blocks_free(&blocks);
	release_truth(&truth);
	pfw_index_close(index);
}

static void some_blocks_have_their_own_totals(void **unused)
{
	struct pfw_index *index = open_index();
	struct pfw_summary is, should;
	struct truth truth;

	(void)unused;
	find_truth(&truth);
	for (int round = 0; round < 10; round++) {
		uint8_t wanted[64] = { 0 };

		pfw_summary_init(&is);
		pfw_summary_init(&should);
		for (size_t i = 0; i < truth.blocks; i++) {
			wanted[i] = any() % 2;
			if (wanted[i])
				pfw_summary_merge(&should, &truth.block[i]);
		}
		assert_int_equal(pfw_index_block_totals(index, wanted, &is), 0);
		/* Names of other blocks are there, with nothing. */
		for (uint32_t i = 1; i < is.names; i++)
			if (!is.name[i].count)
				pfw_summary_name_row(&should, is.name[i].cat, is.name[i].cat_bytes,
						     is.name[i].name, is.name[i].name_bytes,
						     is.name[i].ph);
		expect_names(&is, &should);
		pfw_summary_release(&is);
		pfw_summary_release(&should);
	}
	release_truth(&truth);
	pfw_index_close(index);
}

/* ---- which blocks ---- */

static bool is_name(void *user, const char *cat, size_t cat_bytes, const char *name, size_t bytes,
		    char ph)
{
	(void)cat;
	(void)cat_bytes;
	(void)ph;
	return strlen(user) == bytes && memcmp(user, name, bytes) == 0;
}

static bool is_file(void *user, const char *name, size_t bytes)
{
	return strlen(user) == bytes && memcmp(user, name, bytes) == 0;
}

static bool is_thread(void *user, uint64_t pid, uint64_t tid)
{
	(void)user;
	return pid == 7 && tid == 9;
}

/* The same blocks whether the longest durations are asked or not. */
static size_t count_longest(const struct pfw_index_filter *filter, uint8_t *may,
			    int64_t *longest_ns)
{
	struct pfw_index *index = open_index();
	uint8_t same[64];
	size_t count = 0;

	assert_int_equal(pfw_index_match(index, filter, may, longest_ns), 0);
	assert_int_equal(pfw_index_match(index, filter, same, NULL), 0);
	assert_memory_equal(may, same, pfw_index_meta(index)->blocks);
	for (uint64_t i = 0; i < pfw_index_meta(index)->blocks; i++)
		count += may[i];
	pfw_index_close(index);
	return count;
}

static size_t count_may(const struct pfw_index_filter *filter, uint8_t *may)
{
	int64_t longest_ns[64];

	return count_longest(filter, may, longest_ns);
}

static void blocks_are_told_apart(void **unused)
{
	static const char *const names[] = { "open",	"read",		  "fsync",
					     "process", "ProfilerStep#3", "ProfilerStep#19",
					     "nowhere" };
	struct truth truth;
	int64_t longest_ns[64];
	uint8_t may[64];

	(void)unused;
	find_truth(&truth);
	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		struct pfw_index_filter filter = { .user = (void *)names[n], .name = is_name };
		size_t count = count_longest(&filter, may, longest_ns);

		if (n >= 4)
			continue; /* steps are in each block, and are looked at below */
		for (size_t i = 0; i < truth.blocks; i++) {
			int64_t longest = INT64_MIN;
			bool has = false;

			for (uint32_t k = 1; k < truth.block[i].names; k++) {
				const struct pfw_summary_name *name = &truth.block[i].name[k];

				if (!name->count || !is_name((void *)names[n], "", 0, name->name,
							     name->name_bytes, 'X'))
					continue;
				has = true;
				PFW_RAISE(longest, name->max_ns);
			}
			assert_int_equal(may[i], has);
			assert_int_equal(longest_ns[i], longest);
		}
		assert_true(count > 0 && (n == 1 || count < truth.blocks));
	}
	assert_true(
		count_may(&(struct pfw_index_filter){ .user = "ProfilerStep#3", .name = is_name },
			  may) > 0);
	assert_int_equal(
		count_may(&(struct pfw_index_filter){ .user = "ProfilerStep#77", .name = is_name },
			  may),
		0);
	assert_int_equal(count_may(&(struct pfw_index_filter){ .user = "nowhere", .name = is_name },
				   may),
			 0);
	assert_int_equal(count_may(&(struct pfw_index_filter){ .file = NULL }, may), truth.blocks);
	release_truth(&truth);
}

static void files_threads_and_lengths_tell_blocks_apart(void **unused)
{
	struct pfw_index_filter late = { .user = "/data/late-7", .file = is_file };
	struct pfw_index_filter early = { .thread = is_thread };
	struct pfw_index_filter longest = { .least_dur_ns = 50000000 };
	struct pfw_index_filter never = { .least_dur_ns = 50000001 };
	struct truth truth;
	uint8_t may[64];

	(void)unused;
	find_truth(&truth);
	assert_in_range(count_may(&late, may), 1, truth.blocks / 3);
	assert_int_equal(may[truth.blocks - 1], 1);
	assert_in_range(count_may(&early, may), 1, truth.blocks / 3);
	assert_int_equal(may[0], 1);
	assert_in_range(count_may(&longest, may), 1, truth.blocks / 3);
	assert_int_equal(may[truth.blocks - 1], 1);
	assert_int_equal(count_may(&never, may), 0);
	release_truth(&truth);
}

/* ---- the greatest files ---- */

static uint64_t value_of(const struct pfw_summary_file *file, enum pfw_index_order order)
{
	if (order == PFW_INDEX_BY_BYTES)
		return file->read_bytes + file->written_bytes;
	if (order == PFW_INDEX_BY_NS)
		return file->open_ns + file->read_ns + file->write_ns + file->other_ns;
	return file->opens + file->reads + file->writes + file->others;
}

static int by_value(const void *a, const void *b, void *order)
{
	const struct pfw_summary_file *x = a, *y = b;
	uint64_t m = value_of(x, *(enum pfw_index_order *)order);
	uint64_t n = value_of(y, *(enum pfw_index_order *)order);
	uint32_t bytes = x->name_bytes < y->name_bytes ? x->name_bytes : y->name_bytes;
	int differ = memcmp(x->name, y->name, bytes);

	if (m != n)
		return m > n ? -1 : 1;
	if (!m && !x->transfers != !y->transfers)
		return x->transfers ? -1 : 1;
	return differ ? differ : (x->name_bytes > y->name_bytes) - (x->name_bytes < y->name_bytes);
}

/* The `limit` greatest, which are in `all`, of these two. */
static void expect_top(struct pfw_index *const *index, const struct pfw_summary *all,
		       enum pfw_index_order order, size_t limit)
{
	struct pfw_index_top top = { .order = order, .limit = limit };
	struct pfw_indexes two = { .count = 2, .open = { index[0], index[1] } };
	uint32_t count = limit < all->files - 1 ? (uint32_t)limit : all->files - 1;
	uint64_t bytes = 0, ns = 0, calls = 0;
	struct pfw_summary found;

	assert_int_equal(pfw_summary_init(&found), 0);
	assert_int_equal(pfw_index_top_files(&two, &top, &found), 0);
	assert_int_equal(found.files - 1, count);
	for (uint32_t i = 1; i < found.files; i++) {
		assert_int_equal(found.file[i].name_bytes, all->file[i].name_bytes);
		assert_memory_equal(found.file[i].name, all->file[i].name,
				    found.file[i].name_bytes);
		assert_int_equal(by_value(&found.file[i], &all->file[i], &order), 0);
	}
	for (uint32_t i = 0; i < all->files; i++) {
		bytes += value_of(&all->file[i], PFW_INDEX_BY_BYTES);
		ns += value_of(&all->file[i], PFW_INDEX_BY_NS);
		calls += value_of(&all->file[i], PFW_INDEX_BY_CALLS);
	}
	assert_int_equal(top.bytes, bytes);
	assert_int_equal(top.ns, ns);
	assert_int_equal(top.calls, calls);
	pfw_summary_release(&found);
}

static void top_files_are_the_greatest_of_all(void **unused)
{
	struct pfw_index *index[2];
	struct pfw_summary all;
	char why[128];

	(void)unused;
	write_trace(other, LINES / 2);
	assert_int_equal(build(other, false).error, 0);
	index[0] = open_index();
	assert_int_equal(pfw_index_open(&index[1], other, why, sizeof(why)), 0);
	assert_int_equal(pfw_summary_init(&all), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pfw_index_totals(index[i], PFW_INDEX_FILES, &all), 0);
	for (enum pfw_index_order order = PFW_INDEX_BY_BYTES; order <= PFW_INDEX_BY_CALLS;
	     order++) {
		qsort_r(all.file + 1, all.files - 1, sizeof(*all.file), by_value, &order);
		for (size_t limit = 0; limit < 10000; limit = limit * 3 + 1)
			expect_top(index, &all, order, limit);
	}
	for (size_t i = 0; i < 2; i++)
		pfw_index_close(index[i]);
	pfw_summary_release(&all);
}

/* ---- what is not believed ---- */

static int open_result(char *why, size_t size)
{
	struct pfw_index *index;
	int error = pfw_index_open(&index, trace, why, size);

	if (!error)
		pfw_index_close(index);
	return error;
}

static void expect_refused(int error)
{
	char why[128] = "";

	assert_int_equal(open_result(why, sizeof(why)), error);
	assert_true(*why);
}

static void change_byte(const char *path, off_t at)
{
	int fd = open(path, O_RDWR);
	char byte;

	if (at < 0)
		at += lseek(fd, 0, SEEK_END);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x55;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void a_stale_one_is_refused(void **unused)
{
	struct stat st;

	(void)unused;
	assert_int_equal(stat(trace, &st), 0);
	change_byte(trace, 100);
	expect_refused(-ESTALE);
	change_byte(trace, 100);
	assert_int_equal(open_result((char[128]){ 0 }, 128), 0);
	change_byte(trace, -100);
	expect_refused(-ESTALE);
	change_byte(trace, -100);
	assert_int_equal(truncate(trace, st.st_size - 1), 0);
	expect_refused(-ESTALE);
	assert_int_equal(truncate(trace, st.st_size), 0);
	expect_refused(-ESTALE); /* a NUL where its last '\n' was */
	unlink(trace);
	expect_refused(-ENOENT);
	assert_int_equal(fresh(NULL), 0);
	unlink(idx);
	expect_refused(-ENOENT);
}

static void sql(const char *statement)
{
	sqlite3 *db;
	char *message = NULL;

	assert_int_equal(sqlite3_open(idx, &db), SQLITE_OK);
	if (sqlite3_exec(db, statement, NULL, NULL, &message))
		fail_msg("%s: %s", statement, message);
	sqlite3_close(db);
}

static void what_is_not_ours_is_refused(void **unused)
{
	static const char *const changes[] = {
		"CREATE TABLE more (x)",
		"CREATE VIEW v AS SELECT * FROM name",
		"CREATE TRIGGER t AFTER INSERT ON name BEGIN DELETE FROM file; END",
		"CREATE INDEX i ON file (fname)",
		"DROP TABLE step",
		"ALTER TABLE name RENAME COLUMN bytes TO moved",
		"DROP TABLE name; CREATE VIEW name AS SELECT 1 AS id, 'c' AS cat",
		"DROP TABLE meta; CREATE TABLE meta (trace_bytes INTEGER)",
		"DELETE FROM meta",
		"INSERT INTO meta SELECT * FROM meta",
		"UPDATE meta SET layout = 'sideways'",
		"UPDATE meta SET trace_bytes = NULL",
		"UPDATE meta SET first_bytes = 1 << 40",
		"UPDATE meta SET blocks = 1 << 60",
		"PRAGMA user_version = 77",
		"PRAGMA application_id = 0",
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		assert_int_equal(fresh(NULL), 0);
		sql(changes[i]);
		expect_refused(-EBADMSG);
	}
	unlink(idx);
	assert_int_equal(mkdir(idx, 0700), 0);
	expect_refused(-EBADMSG);
	rmdir(idx);
	assert_int_equal(mkfifo(idx, 0600), 0);
	expect_refused(-EBADMSG);
	unlink(idx);
	assert_int_equal(symlink("/dev/zero", idx), 0);
	expect_refused(-EBADMSG);
	unlink(idx);
	assert_int_equal(close(open(idx, O_CREAT | O_WRONLY, 0600)), 0);
	expect_refused(-EBADMSG);
	write_trace(idx, 10);
	expect_refused(-EBADMSG);
}

/* Read all that there is to read; whatever it says, nothing breaks. */
static int read_all(void)
{
	static const struct pfw_index_filter filter = {
		.user = "open", .name = is_name, .file = is_file, .thread = is_thread
	};
	struct pfw_index_top top = { .order = PFW_INDEX_BY_NS, .limit = 10 };
	struct pfw_blocks blocks = { 0 };
	struct pfw_summary into;
	struct pfw_index *index;
	uint8_t *may;
	char why[128];
	int error = pfw_index_open(&index, trace, why, sizeof(why));

	if (error)
		return error;
	may = calloc(pfw_index_meta(index)->blocks + 1, 1);
	pfw_summary_init(&into);
	error |= pfw_index_blocks(index, &blocks);
	error |= pfw_index_totals(index, PFW_INDEX_ALL, &into);
	error |= pfw_index_top_files(&(struct pfw_indexes){ .count = 1, .open = { index } }, &top,
				     &into);
	if (may)
		error |= pfw_index_match(index, &filter, may, NULL);
	if (may)
		memset(may, 1, pfw_index_meta(index)->blocks);
	if (may)
		error |= pfw_index_block_totals(index, may, &into);
	free(may);
	pfw_blocks_free(&blocks);
	pfw_summary_release(&into);
	pfw_index_close(index);
	return error;
}

/* Rows that a table of ours cannot have, behind a schema that is right. */
static void rows_that_cannot_be_are_refused(void **unused)
{
	static const char *const changes[] = {
		"DELETE FROM name WHERE id = 2",
		"UPDATE name SET ph = 'XX' WHERE id = 2",
		"UPDATE name SET cat = NULL WHERE id = 2",
		"UPDATE name SET durations = x'ffffffffffffffff' WHERE id = 3",
		"UPDATE name SET timed = timed + 1 WHERE id = 3",
		"UPDATE name SET sum_ns = 'DROP TABLE name' WHERE id = 3",
		"UPDATE name SET sum_ns = 1.5 WHERE id = 3",
		"UPDATE block SET at = at + 1 WHERE id = 2",
		"UPDATE block SET lines = 1 << 40 WHERE id = 2",
		"UPDATE block SET bytes = -1 WHERE id = 1",
		"DELETE FROM block WHERE id = 1",
		"UPDATE block SET id = 99 WHERE id = 1",
		"DELETE FROM block_holds WHERE block = 1",
		"UPDATE block_holds SET names = x'00' WHERE block = 1",
		"UPDATE block_holds SET names = x'ffffffffffffffffffffff' WHERE block = 1",
		"UPDATE block_holds SET threads = x'7f' WHERE block = 0",
		"UPDATE block_holds SET names = NULL WHERE block = 1",
		"UPDATE file SET fname = NULL WHERE id = 3",
		"UPDATE thread SET pid = NULL WHERE id = 1",
		"UPDATE step SET number = NULL WHERE id = 1",
		"UPDATE process SET run = NULL, world_size = NULL",
		"UPDATE file_sums SET sums = x'00'",
		"DELETE FROM file_sums; INSERT INTO file_sums VALUES (5, x'')",
	};

	(void)unused;
	assert_int_equal(read_all(), 0);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		assert_int_equal(fresh(NULL), 0);
		sql(changes[i]);
		if (!read_all())
			fail_msg("accepted: %s", changes[i]);
		/* And whoever compares sees that it is wrong. */
		assert_true(build(trace, true).differs);
	}
}

static void any_damage_is_survived(void **unused)
{
	struct stat st;

	(void)unused;
	assert_int_equal(stat(idx, &st), 0);
	for (int i = 0; i < 400; i++) {
		unlink(idx);
		if (i % 20 == 0)
			assert_int_equal(fresh(NULL), 0);
		else
			assert_int_equal(rename(other, idx), 0);
		for (int k = 0; k < 1 + i % 8; k++)
			change_byte(idx, (off_t)(any() % (uint64_t)st.st_size));
		read_all();
		assert_int_equal(rename(idx, other), 0);
		if (i % 20 == 19)
			unlink(other);
	}
	for (off_t length = 0; length < st.st_size; length += 511) {
		assert_int_equal(fresh(NULL), 0);
		assert_int_equal(truncate(idx, length), 0);
		assert_true(read_all() != 0);
	}
}

/* ---- making it ---- */

static void checking_finds_nothing_wrong_with_a_right_one(void **unused)
{
	struct pfw_index_built built = build(trace, true);

	(void)unused;
	assert_int_equal(built.error, 0);
	assert_false(built.differs);
	sql("UPDATE name SET count = count + 1 WHERE id = 2");
	built = build(trace, true);
	assert_true(built.differs);
	assert_non_null(strstr(built.difference, "count of row 2 of the table name"));
}

static void it_is_as_private_as_the_trace(void **unused)
{
	static const mode_t modes[] = { 0600, 0640, 0444 };
	struct stat st;

	(void)unused;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		assert_int_equal(chmod(trace, modes[i]), 0);
		assert_int_equal(build(trace, false).error, 0);
		assert_int_equal(stat(idx, &st), 0);
		assert_int_equal(st.st_mode & 0777, modes[i]);
	}
}

static void what_a_dead_one_left_is_taken_away(void **unused)
{
	char left[80], target[80];
	struct pfw_index_writer *one, *two;

	(void)unused;
	snprintf(left, sizeof(left), "%s.idx.tmp", trace);
	snprintf(target, sizeof(target), "%s/precious", directory);
	write_trace(left, 10);
	assert_int_equal(build(trace, false).error, 0);
	assert_int_equal(access(left, F_OK), -1);
	/* A link is not followed. */
	write_trace(target, 10);
	assert_int_equal(symlink(target, left), 0);
	assert_int_equal(build(trace, false).error, 0);
	assert_int_equal(access(target, F_OK), 0);
	/* One that lives is left alone. */
	assert_int_equal(pfw_index_begin(&one, trace, 1000, PFW_INDEX_ASKED), 0);
	assert_int_equal(pfw_index_begin(&two, trace, 1000, PFW_INDEX_ASKED), -EBUSY);
	assert_int_equal(access(left, F_OK), 0);
	pfw_index_end(one);
	assert_int_equal(access(left, F_OK), -1);
	unlink(target);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(totals_are_those_of_the_lines),
		TEST(blocks_are_those_of_the_file),
		TEST(some_blocks_have_their_own_totals),
		TEST(blocks_are_told_apart),
		TEST(files_threads_and_lengths_tell_blocks_apart),
		TEST(top_files_are_the_greatest_of_all),
		TEST(a_stale_one_is_refused),
		TEST(what_is_not_ours_is_refused),
		TEST(rows_that_cannot_be_are_refused),
		TEST(any_damage_is_survived),
		TEST(checking_finds_nothing_wrong_with_a_right_one),
		TEST(it_is_as_private_as_the_trace),
		TEST(what_a_dead_one_left_is_taken_away),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
