/* test_summary.c - what a summary says of lines, merged or not, within its limits. */
#include "store/summary/summary.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/line/io.h"

static struct pfw_summary summary;

static int begin(void **unused)
{
	(void)unused;
	return pfw_summary_init(&summary);
}

static int end(void **unused)
{
	(void)unused;
	pfw_summary_release(&summary);
	return 0;
}

static void add_to(struct pfw_summary *to, const char *line)
{
	struct pfw_entry entry;

	pfw_entry_parse(&entry, line, strlen(line));
	assert_int_equal(entry.kind, PFW_ENTRY_EVENT);
	assert_int_equal(pfw_summary_add(to, &entry), 0);
}

static void add(const char *line)
{
	add_to(&summary, line);
}

#define NO_ARGS " "

/* A line with all that most tests do not care for. */
__attribute__((format(printf, 6, 7))) static void add_call(struct pfw_summary *to, const char *cat,
							   const char *name, int64_t ts_us,
							   int64_t dur_ns, const char *args, ...)
{
	char line[4096], text[2048];
	va_list values;

	va_start(values, args);
	vsnprintf(text, sizeof(text), args, values);
	va_end(values);
	snprintf(line, sizeof(line),
		 "{\"id\":1,\"name\":\"%s\",\"cat\":\"%s\",\"pid\":7,\"tid\":8,\"ts\":%" PRId64
		 ".000,\"dur\":%" PRId64 ".%03" PRId64 ",\"ph\":\"X\",\"args\":{%s}}",
		 name, cat, ts_us, dur_ns / 1000, dur_ns % 1000, text);
	add_to(to, line);
}

static const struct pfw_summary_name *name_of(const struct pfw_summary *of, const char *cat,
					      const char *name, char ph)
{
	for (uint32_t i = 1; i < of->names; i++) {
		const struct pfw_summary_name *row = &of->name[i];

		if (row->ph == ph && row->cat_bytes == strlen(cat) &&
		    row->name_bytes == strlen(name) && !memcmp(row->cat, cat, strlen(cat)) &&
		    !memcmp(row->name, name, strlen(name)))
			return row;
	}
	fail_msg("no row %s %s %c", cat, name, ph);
	return NULL;
}

static const struct pfw_summary_file *file_of(const struct pfw_summary *of, const char *name)
{
	for (uint32_t i = 1; i < of->files; i++) {
		if (of->file[i].name_bytes == strlen(name) &&
		    !memcmp(of->file[i].name, name, strlen(name)))
			return &of->file[i];
	}
	fail_msg("no file %s", name);
	return NULL;
}

static void durations_are_exact(void **unused)
{
	const struct pfw_summary_name *name;

	(void)unused;
	add_call(&summary, "app", "f", 100, 412, NO_ARGS);
	add_call(&summary, "app", "f", 50, 3000001, "\"n\":1");
	add_call(&summary, "app", "g", 60, 1, NO_ARGS);
	add("{\"id\":3,\"name\":\"f\",\"cat\":\"app\",\"pid\":7,\"tid\":8,\"ts\":70,"
	    "\"ph\":\"i\",\"args\":{}}");
	name = name_of(&summary, "app", "f", 'X');
	assert_int_equal(name->count, 2);
	assert_true(name->sum_ns == 3000413);
	assert_int_equal(name->min_ns, 412);
	assert_int_equal(name->max_ns, 3000001);
	assert_int_equal(name->durations.total, 2);
	name = name_of(&summary, "app", "f", 'i');
	assert_int_equal(name->count, 1);
	assert_int_equal(name->durations.total, 0);
	assert_true(name->min_ns > name->max_ns);
	assert_int_equal(summary.lines, 4);
	assert_int_equal(summary.events, 4);
	assert_int_equal(summary.least_ns, 50000);
	assert_int_equal(summary.greatest_ns, 3050001);
	assert_false(summary.sorted);
	assert_int_equal(summary.thread[1].lines, 4);
	assert_int_equal(summary.thread[1].first_ns, 50000);
}

/* Sums of durations that no 64 bits hold. */
static void sums_do_not_overflow(void **unused)
{
	const struct pfw_summary_name *name;
	__int128 sum = 0;

	(void)unused;
	for (int i = 0; i < 10; i++) {
		add("{\"id\":3,\"name\":\"f\",\"cat\":\"app\",\"pid\":7,\"tid\":8,"
		    "\"ts\":1000,\"dur\":9000000000000000,\"ph\":\"X\",\"args\":{}}");
		sum += (__int128)9000000000000000 * 1000;
	}
	name = name_of(&summary, "app", "f", 'X');
	assert_true(name->sum_ns == sum && sum > INT64_MAX);
	/* A span that time ends in is cut. */
	add("{\"id\":3,\"name\":\"g\",\"cat\":\"app\",\"pid\":7,\"tid\":8,"
	    "\"ts\":9000000000000000,\"dur\":9000000000000000,\"ph\":\"X\",\"args\":{}}");
	assert_int_equal(summary.greatest_ns, PFW_ENTRY_TIME_MAX);
}

static void calls_move_what_they_say(void **unused)
{
	static const struct {
		const char *cat, *name, *args;
		uint64_t bytes, read, written;
	} calls[] = {
		{ "POSIX", "read", "\"fd\":3,\"ret\":4096,\"count\":8192", 4096, 4096, 0 },
		{ "POSIX", "read", "\"fd\":3,\"ret\":-1,\"errno\":\"EIO\",\"count\":9", 0, 0, 0 },
		{ "POSIX", "pwritev2", "\"fd\":3,\"ret\":12", 12, 0, 12 },
		{ "STDIO", "fread", "\"fd\":3,\"ret\":10,\"size\":8,\"count\":20", 80, 80, 0 },
		{ "STDIO", "fwrite", "\"fd\":3,\"ret\":2,\"size\":3,\"count\":2", 6, 0, 6 },
		{ "STDIO", "fputs", "\"fd\":3,\"ret\":1,\"count\":20", 20, 0, 20 },
		{ "POSIX", "lseek", "\"fd\":3,\"ret\":4096", 0, 0, 0 },
		{ "POSIX", "openat", "\"fd\":3,\"ret\":3", 0, 0, 0 },
		{ "app", "read", "\"ret\":3", 0, 0, 0 },
		/* Not in the recorder's order. */
		{ "POSIX", "write", "\"count\":5,\"ret\":5", 5, 0, 5 },
		/* More than any call moves, and more than any number holds. */
		{ "POSIX", "read", "\"fd\":3,\"ret\":9223372036854775807", INT64_MAX, INT64_MAX,
		  0 },
		{ "POSIX", "read", "\"fd\":3,\"ret\":99999999999999999999999", 0, 0, 0 },
		{ "POSIX", "read", "\"fd\":99999999999999999999999,\"ret\":7", 7, 7, 0 },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		const struct pfw_summary_file *file;

		pfw_summary_clear(&summary);
		add_call(&summary, calls[i].cat, calls[i].name, 1, 5, "\"fname\":\"/f\",%s",
			 calls[i].args);
		assert_int_equal(name_of(&summary, calls[i].cat, calls[i].name, 'X')->bytes,
				 calls[i].bytes);
		file = file_of(&summary, "/f");
		assert_int_equal(file->lines, 1);
		assert_int_equal(file->read_bytes, calls[i].read);
		assert_int_equal(file->written_bytes, calls[i].written);
	}
}

static void files_have_their_calls(void **unused)
{
	const struct pfw_summary_file *file;

	(void)unused;
	add_call(&summary, "POSIX", "open", 1, 10, "\"fname\":\"/a\",\"fd\":3,\"ret\":3");
	add_call(&summary, "POSIX", "read", 2, 20, "\"fname\":\"/a\",\"fd\":3,\"ret\":100");
	add_call(&summary, "POSIX", "read", 3, 30, "\"fname\":\"/a\",\"fd\":3,\"ret\":50");
	add_call(&summary, "POSIX", "fstat", 4, 40, "\"fname\":\"/a\",\"fd\":3,\"ret\":0");
	add_call(&summary, "POSIX", "fcntl", 5, 50, "\"fname\":null,\"fd\":3,\"ret\":0");
	add_call(&summary, "POSIX", "sendfile", 6, 60,
		 "\"fname\":\"/a\",\"fd\":3,\"ret\":7,\"fd_out\":4,\"target\":\"/b\"");
	add_call(&summary, "app", "load", 7, 70, "\"fname\":\"/a\"");
	file = file_of(&summary, "/a");
	assert_int_equal(summary.files, 3);
	assert_int_equal(file->opens, 1);
	assert_int_equal(file->open_ns, 10);
	assert_int_equal(file->reads, 3);
	assert_int_equal(file->read_ns, 110);
	assert_int_equal(file->read_bytes, 157);
	assert_int_equal(file->others, 1);
	assert_int_equal(file->other_ns, 40);
	assert_int_equal(file->lines, 6);
	assert_int_equal(file_of(&summary, "/b")->written_bytes, 7);
	assert_int_equal(file_of(&summary, "/b")->writes, 1);
	assert_int_equal(file->transfers, 3);
	assert_int_equal(file->transfer_ns, 110);
	assert_int_equal(file_of(&summary, "/b")->transfers, 1);
	assert_int_equal(file_of(&summary, "/b")->transfer_ns, 0);
	/* A call on no file, and one that does not say how many bytes. */
	assert_int_equal(summary.file[0].lines, 0);
	assert_int_equal(summary.file[0].others, 1);
	assert_int_equal(summary.file[0].other_ns, 50);
	add_call(&summary, "STDIO", "fscanf", 8, 80, "\"fname\":\"/b\",\"ret\":3");
	assert_int_equal(file_of(&summary, "/b")->reads, 1);
	assert_int_equal(file_of(&summary, "/b")->transfers, 1);
}

/* However a text was written, it is one text. */
static void escapes_are_resolved(void **unused)
{
	(void)unused;
	add_call(&summary, "app", "a\\\"b", 1, 5, NO_ARGS);
	add_call(&summary, "app", "a\\u0022b", 1, 5, NO_ARGS);
	add_call(&summary, "POSIX", "read", 1, 5, "\"fname\":\"/x\\\\y\",\"fd\":1,\"ret\":3");
	add_call(&summary, "POSIX", "read", 1, 5, "\"fname\":\"/x\\u005cy\",\"fd\":1,\"ret\":4");
	add_call(&summary, "POSIX", "read", 1, 5, "\"fname\":\"/\\\"\",\"fd\":1,\"ret\":5");
	assert_int_equal(name_of(&summary, "app", "a\"b", 'X')->count, 2);
	assert_int_equal(file_of(&summary, "/x\\y")->read_bytes, 7);
	assert_int_equal(file_of(&summary, "/\"")->read_bytes, 5);
	assert_int_equal(summary.files, 3);
}

#define OWN(name, args)                                                                     \
	"{\"id\":9,\"name\":\"" name "\",\"cat\":\"pfw\",\"pid\":7,\"tid\":8,\"ts\":5.000," \
	"\"ph\":\"M\",\"args\":{" args "}}"

static const struct pfw_summary_loss *loss_of(const char *kind, const char *reason)
{
	for (uint32_t i = 0; i < summary.losses; i++) {
		if (!strcmp(summary.loss[i].kind, kind) && !strcmp(summary.loss[i].reason, reason))
			return &summary.loss[i];
	}
	fail_msg("no loss %s %s", kind, reason);
	return NULL;
}

static void own_lines_are_understood(void **unused)
{
	(void)unused;
	add(OWN("process", "\"format\":1,\"run\":\"r-1\",\"host\":\"h\",\"rank\":3,"
			   "\"world_size\":8,\"local_rank\":1,\"ppid\":6,\"cmd\":\"a \\\"b\\\"\""));
	add(OWN("thread_name", "\"name\":\"main\""));
	add(OWN("lost", "\"reason\":\"ring_full\",\"count\":5,\"first_ts\":1.0,\"last_ts\":2.0"));
	add(OWN("lost", "\"reason\":\"ring_full\",\"count\":9,\"first_ts\":1.0,\"last_ts\":3.0"));
	add(OWN("waited", "\"count\":4,\"total\":1.500"));
	add(OWN("excluded", "\"system\":12,\"proc\":1"));
	add(OWN("untraced_child", "\"why\":\"static\""));
	add(OWN("untraced_child", "\"why\":\"static\""));
	add(OWN("rank", "\"rank\":4"));
	add(OWN("end", "\"events\":10,\"lost\":9,\"reason\":\"exit\""));
	assert_int_equal(summary.processes, 1);
	assert_int_equal(summary.process[0].pid, 7);
	assert_int_equal(summary.process[0].rank, 4);
	assert_int_equal(summary.process[0].world_size, 8);
	assert_string_equal(summary.process[0].run, "r-1");
	assert_string_equal(summary.process[0].command, "a \"b\"");
	assert_string_equal(summary.process[0].reason, "exit");
	assert_int_equal(summary.process[0].events, 10);
	assert_int_equal(loss_of("lost", "ring_full")->count, 9);
	assert_int_equal(loss_of("waited", "")->total_ns, 1500);
	assert_int_equal(loss_of("excluded", "system")->count, 12);
	assert_int_equal(loss_of("untraced_child", "static")->count, 2);
	assert_int_equal(summary.thread[1].name_bytes, 4);
	assert_int_equal(summary.events, 0);
	assert_int_equal(summary.lines, 10);
}

static void steps_and_short_calls_are_known(void **unused)
{
	(void)unused;
	add_call(&summary, "PP", "ProfilerStep#12", 100, 5000, "\"kind\":\"step\"");
	add_call(&summary, "PP", "ProfilerStep#x", 100, 5000, "\"kind\":\"step\"");
	add_call(&summary, "PP", "Memcpy HtoD", 100, 50, "\"kind\":\"memcpy\",\"bytes\":640");
	add(OWN("summed", "\"name\":\"fread\",\"fname\":\"/f\",\"count\":10,\"dur\":2.500,"
			  "\"bytes\":99"));
	assert_int_equal(summary.steps, 1);
	assert_int_equal(summary.step[0].number, 12);
	assert_int_equal(summary.step[0].end_ns, 105000);
	assert_int_equal(name_of(&summary, "PP", "Memcpy HtoD", 'X')->bytes, 640);
	assert_int_equal(name_of(&summary, "STDIO", "fread", 's')->count, 10);
	assert_true(name_of(&summary, "STDIO", "fread", 's')->sum_ns == 2500);
	assert_int_equal(file_of(&summary, "/f")->reads, 10);
	assert_int_equal(file_of(&summary, "/f")->read_bytes, 99);
}

/* Lines one after the other, or by blocks: the same sums. */
static void blocks_add_up(void **unused)
{
	struct pfw_summary whole, block;
	uint32_t seed = 1;

	(void)unused;
	assert_int_equal(pfw_summary_init(&whole), 0);
	assert_int_equal(pfw_summary_init(&block), 0);
	for (int i = 0; i < 5000; i++) {
		char name[16];

		seed = seed * 1103515245 + 12345;
		snprintf(name, sizeof(name), "n%u", seed >> 16 & 63);
		add_call(&whole, "app", name, i, seed >> 8, "\"fname\":\"/f%u\"", seed >> 20 & 255);
		add_call(&block, "app", name, i, seed >> 8, "\"fname\":\"/f%u\"", seed >> 20 & 255);
		if (i % 97 && i < 4999)
			continue;
		assert_int_equal(pfw_summary_merge(&summary, &block), 0);
		for (uint32_t k = 1; k < block.names; k++)
			assert_memory_equal(summary.name[block.name[k].merged].name,
					    block.name[k].name, block.name[k].name_bytes);
		pfw_summary_clear(&block);
	}
	assert_int_equal(summary.lines, whole.lines);
	assert_int_equal(summary.names, whole.names);
	assert_int_equal(summary.files, whole.files);
	assert_true(summary.sorted);
	assert_int_equal(summary.least_ns, whole.least_ns);
	assert_int_equal(summary.greatest_ns, whole.greatest_ns);
	assert_int_equal(summary.thread[1].lines, 5000);
	for (uint32_t i = 1; i < whole.names; i++) {
		char name[16];
		const struct pfw_summary_name *a = &whole.name[i], *b;

		snprintf(name, sizeof(name), "%.*s", (int)a->name_bytes, a->name);
		b = name_of(&summary, "app", name, 'X');
		assert_int_equal(a->count, b->count);
		assert_true(a->sum_ns == b->sum_ns && a->min_ns == b->min_ns &&
			    a->max_ns == b->max_ns);
		assert_int_equal(pfw_sketch_quantile(&a->durations, .5),
				 pfw_sketch_quantile(&b->durations, .5));
	}
	pfw_summary_release(&whole);
	pfw_summary_release(&block);
}

static void order_is_seen_across_blocks(void **unused)
{
	struct pfw_summary block;

	(void)unused;
	assert_int_equal(pfw_summary_init(&block), 0);
	for (int64_t i = 0; i < 3; i++) {
		pfw_summary_clear(&block);
		add_call(&block, "app", "f", 10 + i * 10, 5, NO_ARGS);
		add_call(&block, "app", "f", i < 2 ? 15 + i * 10 : 100, 5, NO_ARGS);
		pfw_summary_merge(&summary, &block);
		assert_true(summary.sorted);
	}
	pfw_summary_clear(&block);
	add_call(&block, "app", "f", 99, 5, NO_ARGS);
	pfw_summary_merge(&summary, &block);
	assert_false(summary.sorted);
	pfw_summary_release(&block);
}

static void nested_calls_are_seen_across_blocks(void **unused)
{
	struct pfw_summary block;

	(void)unused;
	assert_int_equal(pfw_summary_init(&block), 0);
	for (int64_t i = 0; i < 3; i++) {
		pfw_summary_clear(&block);
		add_call(&block, "POSIX", "read", 10 + i * 10, 5000, NO_ARGS);
		add_call(&block, "POSIX", "read", 15 + i * 10, 5000, NO_ARGS);
		add_call(&block, "app", "f", 5, 100000, NO_ARGS);
		assert_false(block.nested);
		pfw_summary_merge(&summary, &block);
		assert_false(summary.nested);
	}
	pfw_summary_clear(&block);
	add_call(&block, "POSIX", "read", 39, 5000, NO_ARGS);
	assert_false(block.nested);
	pfw_summary_merge(&summary, &block);
	assert_true(summary.nested);
	pfw_summary_clear(&block);
	add_call(&block, "STDIO", "fread", 50, 5000, NO_ARGS);
	add_call(&block, "POSIX", "read", 49, 7000, NO_ARGS);
	assert_true(block.nested);
	pfw_summary_release(&block);
}

/* A million names and files: memory has an end, and counts have none. */
static void beyond_the_limits_nothing_is_lost(void **unused)
{
	struct pfw_summary block;
	uint64_t count = 0, lines = 0, total = 0;

	(void)unused;
	assert_int_equal(pfw_summary_init(&block), 0);
	for (int i = 0; i < 200000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "name-%d", i);
		add_call(&block, "POSIX", name, i, 1 + i, "\"fname\":\"/data/file-%d\"", i);
		if (i % 1000 && i < 199999)
			continue;
		assert_int_equal(pfw_summary_merge(&summary, &block), 0);
		pfw_summary_clear(&block);
	}
	assert_int_equal(summary.names, PFW_SUMMARY_NAMES_MAX);
	assert_int_equal(summary.files, PFW_SUMMARY_FILES_MAX);
	for (uint32_t i = 0; i < summary.names; i++) {
		count += summary.name[i].count;
		total += summary.name[i].durations.total;
	}
	for (uint32_t i = 0; i < summary.files; i++)
		lines += summary.file[i].lines;
	assert_int_equal(count, 200000);
	assert_int_equal(total, 200000);
	assert_int_equal(lines, 200000);
	assert_true(summary.name[0].count > 0);
	pfw_summary_release(&block);
}

/* Every I/O call that the recorder wraps has a role, and those that move data move it. */
static void calls_have_roles(void **unused)
{
	(void)unused;
	assert_int_equal(pfw_io_call_find("POSIX", 5, "pread", 5).role, PFW_ROLE_READ);
	assert_int_equal(pfw_io_call_find("POSIX", 5, "pread", 5).moves, PFW_MOVES_RET);
	assert_int_equal(pfw_io_call_find("POSIX", 5, "rename", 6).role, PFW_ROLE_OTHER);
	assert_int_equal(pfw_io_call_find("app", 3, "pread", 5).role, PFW_ROLE_NONE);
	assert_string_equal(pfw_io_call_cat("fread", 5), "STDIO");
	assert_string_equal(pfw_io_call_cat("pread", 5), "POSIX");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(durations_are_exact),
		TEST(sums_do_not_overflow),
		TEST(calls_move_what_they_say),
		TEST(files_have_their_calls),
		TEST(escapes_are_resolved),
		TEST(own_lines_are_understood),
		TEST(steps_and_short_calls_are_known),
		TEST(blocks_add_up),
		TEST(order_is_seen_across_blocks),
		TEST(nested_calls_are_seen_across_blocks),
		TEST(beyond_the_limits_nothing_is_lost),
		cmocka_unit_test(calls_have_roles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
