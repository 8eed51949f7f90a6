/* test_scan.c - the scanner of traces: lines, numbers, dialects, gzip members, hostile files. */
#include "store/read/scan.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "common/format/gzip.h"
#include "store/traces/ends.h"
#include "store/traces/paths.h"
#include "trace_files.h"

static void parse(struct pfw_entry *entry, const char *line)
{
	pfw_entry_parse(entry, line, strlen(line));
}

static bool same_text(const struct pfw_slice *slice, const char *text)
{
	return slice->bytes == strlen(text) && memcmp(slice->at, text, slice->bytes) == 0;
}

/* ---- one line ---- */

static void assert_is_ours(const struct pfw_entry *entry)
{
	assert_int_equal(entry->kind, PFW_ENTRY_EVENT);
	assert_int_equal(entry->wrong | entry->repeated, 0);
	assert_int_equal(entry->id, 12);
	assert_int_equal(entry->pid, 8978);
	assert_int_equal(entry->tid, 8979);
	assert_int_equal(entry->ts_ns, 1795230878627639123);
	assert_int_equal(entry->dur_ns, 412);
	assert_int_equal(entry->ph, 'X');
	assert_true(same_text(&entry->name, "pread"));
	assert_true(same_text(&entry->cat, "POSIX"));
	assert_true(same_text(&entry->args, "{\"fd\":3}"));
}

static void test_canonical_line_takes_the_fast_path(void **state)
{
	struct pfw_entry entry;

	(void)state;
	parse(&entry, OURS);
	assert_true(entry.fast);
	assert_is_ours(&entry);
	pfw_entry_parse_any(&entry, OURS, strlen(OURS));
	assert_false(entry.fast);
	assert_is_ours(&entry);
}

static void test_any_key_order_and_space(void **state)
{
	struct pfw_entry entry;

	(void)state;
	parse(&entry, " { \"args\" : {\"fd\":3} , \"ph\":\"X\",\"dur\":0.412,\"x\":[1,{}],"
		      "\"ts\":1795230878627639.123,\"tid\":8979,\"pid\":8978,\"cat\":\"POSIX\","
		      "\"n\\u0061me\":\"pread\",\"id\":12 } \r");
	assert_is_ours(&entry);
	assert_true(entry.has & PFW_ENTRY_OTHER);
	assert_false(entry.comma);
}

static void test_times_are_exact(void **state)
{
	static const struct {
		const char *text;
		bool fits;
		int64_t ns;
	} rows[] = {
		{ "0", true, 0 },
		{ "1795230878627639.123", true, 1795230878627639123 },
		{ "1795230878627639", true, 1795230878627639000 },
		{ "1795230878627639.1", true, 1795230878627639100 },
		{ "1795230878627639.1239", true, 1795230878627639123 },
		{ "1.795230878627639123e15", true, 1795230878627639123 },
		{ "0.000001e6", true, 1000 },
		{ "-3.5", true, -3500 },
		{ "-0", true, 0 },
		{ "9223372036854775.807", true, INT64_MAX },
		{ "9223372036854775.808", false, 0 },
		{ "1e999", false, 0 },
		{ "1e-999999999999", true, 0 },
		{ "0e999999999999", true, 0 },
		{ "1000000000000000000000000000e-26", true, 10000 },
		{ "", false, 0 },
		{ "-", false, 0 },
		{ "01", false, 0 },
		{ "1.", false, 0 },
		{ "NaN", false, 0 },
		{ "1 ", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pfw_slice text = { .at = rows[i].text, .bytes = strlen(rows[i].text) };
		int64_t ns = 0;

		if (pfw_slice_us(&text, &ns) != rows[i].fits || ns != rows[i].ns)
			fail_msg("%s: %" PRId64, rows[i].text, ns);
	}
}

static void test_number_of_400_digits_is_out_of_range(void **state)
{
	struct pfw_entry entry;
	char digits[401], line[900];

	(void)state;
	memset(digits, '7', 400);
	digits[400] = '\0';
	snprintf(line, sizeof(line), "{\"ts\":%s,\"pid\":%s,\"id\":5}", digits, digits);
	parse(&entry, line);
	assert_int_equal(entry.kind, PFW_ENTRY_EVENT);
	assert_int_equal(entry.wrong, PFW_ENTRY_TS | PFW_ENTRY_PID);
	assert_int_equal(entry.ts_ns, 0);
	assert_int_equal(entry.id, 5);
}

static void test_wrong_types_and_repeated_keys(void **state)
{
	struct pfw_entry entry;

	(void)state;
	parse(&entry, "{\"id\":-1,\"name\":7,\"cat\":null,\"pid\":1.5,\"tid\":\"x\",\"ts\":\"1\","
		      "\"dur\":{},\"ph\":[],\"args\":[]}");
	assert_int_equal(entry.wrong, entry.has);
	assert_int_equal(entry.has, (1 << 9) - 1);
	parse(&entry, "{\"pid\":\"x\",\"pid\":4,\"ts\":5,\"ts\":6}");
	assert_int_equal(entry.repeated, PFW_ENTRY_PID | PFW_ENTRY_TS);
	assert_int_equal(entry.wrong, 0);
	assert_int_equal(entry.pid, 4);
	assert_int_equal(entry.ts_ns, 6000);
}

static void test_what_is_no_json_is_refused(void **state)
{
	static const struct {
		const char *line;
		size_t at;
	} rows[] = {
		{ "{\"a\":nan}", 5 },
		{ "{\"a\":01}", 5 },
		{ "{\"a\":1}x", 7 },
		{ "{\"a\":1,}", 7 },
		{ "{\"a\" 1}", 5 },
		{ "{a:1}", 1 },
		{ "{\"a\":\"b}", 5 },
		{ "{\"a\":\"\x01\"}", 6 },
		{ "{\"a\":\"\\q\"}", 6 },
		{ "{\"a\":\"\\ud800\"}", 6 },
		{ "{\"a\":\"\\udc00\\ud800\"}", 6 },
		{ "{\"a\":\"\\ud800\\u0041\"}", 6 },
		{ "{\"a\":\"\xff\"}", 6 },
		{ "{\"a\":\"\xc0\x80\"}", 6 },
		{ "{\"a\":\"\xed\xa0\x80\"}", 6 },
		{ "{\"a\":\"\xf4\x90\x80\x80\"}", 6 },
		{ "{\"a\":\"\xe2\x82\"}", 6 },
		{ "{\"a\":[1 2]}", 8 },
		{ "{\"a\":[1}", 7 },
		{ "{\"a\":-}", 6 },
		{ "{\"a\":tru}", 5 },
		{ "\xef\xbb\xbf{}", 0 },
		{ "\"text\"", 0 },
		{ "[1]", 0 },
		{ "{}{}", 2 },
		{ "{},,", 3 },
		{ "{", 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pfw_entry entry;

		parse(&entry, rows[i].line);
		if (entry.kind != PFW_ENTRY_BAD || entry.why_at != rows[i].at || !entry.why)
			fail_msg("%s: kind %d at %zu, wanted %zu", rows[i].line, entry.kind,
				 entry.why_at, rows[i].at);
	}
}

static void test_nesting_is_bounded(void **state)
{
	enum { DEEP = 100000 };
	struct pfw_entry entry;
	char *line = malloc(2 * DEEP + 16), *at = line;

	(void)state;
	at += sprintf(at, "{\"a\":");
	memset(at, '[', DEEP);
	memset(at + DEEP, ']', DEEP);
	strcpy(at + 2 * DEEP, "}");
	parse(&entry, line);
	assert_int_equal(entry.kind, PFW_ENTRY_BAD);
	assert_string_equal(entry.why, "nested more than 128 deep");
	strcpy(at + 128, "");
	memset(at + 64, ']', 64);
	strcpy(at + 128, "}");
	parse(&entry, line);
	assert_int_equal(entry.kind, PFW_ENTRY_EVENT);
	free(line);
}

static void test_brackets_blanks_and_commas(void **state)
{
	struct pfw_entry entry;

	(void)state;
	parse(&entry, "[");
	assert_int_equal(entry.kind, PFW_ENTRY_BRACKET);
	parse(&entry, "]\r");
	assert_int_equal(entry.kind, PFW_ENTRY_BRACKET);
	parse(&entry, " \t\r");
	assert_int_equal(entry.kind, PFW_ENTRY_BLANK);
	parse(&entry, OURS ",");
	assert_true(entry.comma);
	assert_is_ours(&entry);
}

static void test_integer_ph(void **state)
{
	static const char letters[] = "?XCAM?";

	(void)state;
	for (int ph = 0; ph < 6; ph++) {
		struct pfw_entry entry;
		char line[32];

		snprintf(line, sizeof(line), "{\"ph\":%d}", ph);
		parse(&entry, line);
		assert_true(entry.integer_ph);
		assert_int_equal(entry.ph, letters[ph]);
	}
}

static void test_args_are_found(void **state)
{
	struct pfw_entry entry;
	struct pfw_value value;
	char text[64];
	uint64_t number;
	int64_t signed_number;

	(void)state;
	parse(&entry, "{\"args\":{\"a\":{\"fd\":9},\"fd\":3,\"s\":\"x\\n\\ud83d\\ude00\\u0000\","
		      "\"n\":-9223372036854775808,\"big\":18446744073709551615,\"t\":true}}");
	assert_true(pfw_slice_find(&entry.args, "fd", &value));
	assert_true(pfw_value_u64(&value, &number));
	assert_int_equal(number, 3);
	assert_true(pfw_slice_find(&entry.args, "s", &value));
	assert_int_equal(value.type, PFW_VALUE_STRING);
	pfw_slice_decode(&value.text, text, sizeof(text));
	assert_string_equal(text, "x\n\xf0\x9f\x98\x80\xef\xbf\xbd");
	pfw_slice_decode(&value.text, text, 5); /* the emoji does not fit: no half of it */
	assert_string_equal(text, "x\n");
	assert_true(pfw_slice_find(&entry.args, "n", &value));
	assert_true(pfw_value_i64(&value, &signed_number));
	assert_true(signed_number == INT64_MIN);
	assert_true(pfw_slice_find(&entry.args, "big", &value));
	assert_true(pfw_value_u64(&value, &number));
	assert_true(number == UINT64_MAX);
	assert_false(pfw_value_i64(&value, &signed_number));
	assert_true(pfw_slice_find(&entry.args, "t", &value));
	assert_int_equal(value.type, PFW_VALUE_TRUE);
	assert_false(pfw_slice_find(&entry.args, "none", &value));
}

/* ---- files ---- */

struct counts {
	int lines, events, bad, problems, failed;
	char last[200]; /* the last problem */
	uint64_t last_line, last_at;
	enum pfw_dialect dialect;
};

static struct counts count(const char *path)
{
	struct counts counts = { 0 };
	enum pfw_scan_result result;
	struct pfw_scan scan;

	assert_int_equal(pfw_scan_open(&scan, path), 0);
	while ((result = pfw_scan_next(&scan)) != PFW_SCAN_END) {
		if (result == PFW_SCAN_LINE) {
			counts.lines++;
			counts.events += scan.entry.kind == PFW_ENTRY_EVENT;
			counts.bad += scan.entry.kind == PFW_ENTRY_BAD;
			continue;
		}
		counts.problems++;
		counts.last_line = scan.problem.line;
		counts.last_at = scan.problem.at;
		strcpy(counts.last, scan.problem.text);
		if (result == PFW_SCAN_FAILED) {
			counts.failed++;
			break;
		}
	}
	counts.dialect = scan.dialect;
	pfw_scan_close(&scan);
	return counts;
}

static void test_plain_file(void **state)
{
	struct fixture *fixture = *state;
	static const char text[] = OURS "\n" OURS "\r\n\n" OURS;
	struct counts counts;

	write_file(fixture->path, text, sizeof(text) - 1);
	counts = count(fixture->path);
	assert_int_equal(counts.lines, 4);
	assert_int_equal(counts.events, 3);
	assert_int_equal(counts.problems, 0);
	assert_int_equal(counts.dialect, PFW_DIALECT_PFW);
}

static void test_places_are_right(void **state)
{
	struct fixture *fixture = *state;
	static const char text[] = "{}\n{\"a\":1}\nrubbish\n{}";
	struct pfw_scan scan;

	write_file(fixture->path, text, sizeof(text) - 1);
	assert_int_equal(pfw_scan_open(&scan, fixture->path), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pfw_scan_next(&scan), PFW_SCAN_LINE);
	assert_int_equal(scan.line, 3);
	assert_int_equal(scan.at, 11);
	assert_int_equal(scan.entry.kind, PFW_ENTRY_BAD);
	assert_false(scan.unterminated);
	assert_int_equal(pfw_scan_next(&scan), PFW_SCAN_LINE);
	assert_true(scan.unterminated);
	assert_int_equal(pfw_scan_next(&scan), PFW_SCAN_END);
	pfw_scan_close(&scan);
}

static void test_dialects(void **state)
{
	struct fixture *fixture = *state;
	static const char one[] =
		"[\n{\"id\":\"1\",\"name\":\"FH\",\"cat\":\"dftracer\",\"pid\":1,\"tid\":1,"
		"\"ph\":\"M\",\"args\":{}},\n]\n";
	static const char two[] = "{\"name\":\"HH\",\"cat\":\"dftracer\",\"type\":1,\"pid\":1,"
				  "\"tid\":1,\"ph\":4,\"args\":{}}\n";

	write_file(fixture->path, one, sizeof(one) - 1);
	assert_int_equal(count(fixture->path).dialect, PFW_DIALECT_DFTRACER_1);
	write_file(fixture->path, two, sizeof(two) - 1);
	assert_int_equal(count(fixture->path).dialect, PFW_DIALECT_DFTRACER_2);
}

static void test_line_that_is_too_long(void **state)
{
	struct fixture *fixture = *state;
	FILE *file = fopen(fixture->path, "wb");
	char block[65536];
	struct counts counts;
	struct rusage before, after;

	fputs("{}\n{\"a\":\"", file);
	memset(block, 'x', sizeof(block));
	for (int i = 0; i < 1600; i++) /* 100 MiB */
		fwrite(block, 1, sizeof(block), file);
	fputs("\"}\n{}\n", file);
	fclose(file);
	getrusage(RUSAGE_SELF, &before);
	counts = count(fixture->path);
	getrusage(RUSAGE_SELF, &after);
	assert_int_equal(counts.events, 2);
	assert_int_equal(counts.problems, 1);
	assert_int_equal(counts.last_line, 2);
	assert_int_equal(counts.last_at, 3);
	assert_non_null(strstr(counts.last, "a line of 104857608 bytes"));
	/* Two buffers of PFW_SCAN_LINE_MAX at most, while one grows. */
	assert_true(after.ru_maxrss - before.ru_maxrss < 48 * 1024 * SHADOW);
}

static void test_gzip_bomb_is_read_in_bounded_memory(void **state)
{
	struct fixture *fixture = *state;
	z_stream z = { 0 };
	static char block[1 << 20];
	unsigned char out[65536];
	FILE *file = fopen(fixture->path, "wb");
	struct counts counts;

	memset(block, 'x', sizeof(block));
	deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
	for (int i = 0; i <= 256; i++) { /* 256 MiB of one line */
		z.next_in = (unsigned char *)block;
		z.avail_in = i < 256 ? sizeof(block) : 0;
		do {
			z.next_out = out;
			z.avail_out = sizeof(out);
			deflate(&z, i < 256 ? Z_NO_FLUSH : Z_FINISH);
			fwrite(out, 1, sizeof(out) - z.avail_out, file);
		} while (z.avail_out == 0);
	}
	deflateEnd(&z);
	fclose(file);
	counts = count(fixture->path);
	assert_int_equal(counts.problems, 1);
	assert_int_equal(counts.lines, 0);
	assert_non_null(strstr(counts.last, "a line of 268435456 bytes"));
}

static void test_members_join_to_one_text(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[8192];
	size_t used = 0;
	struct counts counts;

	/* A line may go on in the next member, and members may be empty. */
	used += member(bytes, sizeof(bytes), "{}\n{\"a\"", 7, 0);
	used += member(bytes + used, sizeof(bytes) - used, "", 0, 0);
	used += member(bytes + used, sizeof(bytes) - used, ":1}\n{}\n", 7, 0);
	memset(bytes + used, 0, 700); /* padding */
	write_file(fixture->path, bytes, used + 700);
	counts = count(fixture->path);
	assert_int_equal(counts.events, 3);
	assert_int_equal(counts.problems, 0);
}

/* Three members of two lines each; returns the bytes and where the second and third begin. */
static size_t three_members(unsigned char *bytes, size_t room, uint32_t lines, size_t at[2])
{
	static const char text[] = OURS "\n" OURS "\n";
	size_t used = member(bytes, room, text, sizeof(text) - 1, lines);

	at[0] = used;
	used += member(bytes + used, room - used, text, sizeof(text) - 1, lines);
	at[1] = used;
	return used + member(bytes + used, room - used, text, sizeof(text) - 1, lines);
}

static void test_cut_at_every_byte(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[4096];
	size_t at[2], total = three_members(bytes, sizeof(bytes), 2, at);

	for (size_t cut = 1; cut < total; cut++) {
		struct counts counts;
		bool whole = cut == at[0] || cut == at[1];

		write_file(fixture->path, bytes, cut);
		counts = count(fixture->path);
		assert_int_equal(counts.failed, 0);
		if (cut < 2) /* one byte is not known to be gzip */
			continue;
		assert_int_equal(counts.problems, !whole);
		assert_true(counts.events >= (cut >= at[0] ? 2 : 0) + (cut >= at[1] ? 2 : 0));
		assert_int_equal(counts.bad, 0);
		if (!whole) {
			assert_non_null(strstr(counts.last, "cut"));
			assert_int_equal(counts.last_at, cut > at[1]   ? at[1]
							 : cut > at[0] ? at[0]
								       : 0);
		}
	}
}

static void test_damage_costs_one_member(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[4096];
	size_t at[2], total = three_members(bytes, sizeof(bytes), 2, at);

	for (size_t flip = at[0] + PFW_GZIP_HEADER_BYTES; flip < at[1]; flip++) {
		struct counts counts;

		bytes[flip] ^= 0x55;
		write_file(fixture->path, bytes, total);
		counts = count(fixture->path);
		bytes[flip] ^= 0x55;
		assert_true(counts.problems >= 1);
		assert_true(counts.events >= 4); /* the first and the third member */
	}
}

static void test_wrong_crc_and_rubbish(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[4096];
	size_t at[2], total = three_members(bytes, sizeof(bytes), 0, at);
	struct counts counts;

	strcpy((char *)bytes + total, "rubbish");
	write_file(fixture->path, bytes, total + 7);
	counts = count(fixture->path);
	assert_int_equal(counts.events, 6);
	assert_int_equal(counts.problems, 1);
	assert_int_equal(counts.last_at, total);
	assert_non_null(strstr(counts.last, "6 whole lines"));
	bytes[at[0] - 8] ^= 1; /* CRC of the first */
	write_file(fixture->path, bytes, total);
	counts = count(fixture->path);
	assert_int_equal(counts.events, 2);
	assert_int_equal(counts.problems, 1);
	assert_int_equal(counts.last_at, 0);
	assert_non_null(strstr(counts.last, "incorrect data check"));
}

static void test_ten_thousand_members(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[128];
	size_t used = member(bytes, sizeof(bytes), "{}\n", 3, 0);
	FILE *file = fopen(fixture->path, "wb");

	for (int i = 0; i < 10000; i++)
		fwrite(bytes, 1, used, file);
	fclose(file);
	assert_int_equal(count(fixture->path).events, 10000);
}

static void test_what_is_no_file(void **state)
{
	struct fixture *fixture = *state;
	struct pfw_scan scan;
	char path[128];

	assert_int_equal(pfw_scan_open(&scan, fixture->directory), -EISDIR);
	assert_int_equal(pfw_scan_open(&scan, "/dev/zero"), -ENODEV);
	assert_int_equal(pfw_scan_open(&scan, fixture->path), -ENOENT);
	snprintf(path, sizeof(path), "%s/loop", fixture->directory);
	assert_int_equal(symlink("loop", path), 0);
	assert_int_equal(pfw_scan_open(&scan, path), -ELOOP);
	snprintf(path, sizeof(path), "%s/fifo", fixture->directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(pfw_scan_open(&scan, path), 0); /* and does not hang */
	assert_int_equal(pfw_scan_next(&scan), PFW_SCAN_END);
	pfw_scan_close(&scan);
}

/* ---- paths and traces ---- */

static void touch(const struct fixture *fixture, const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", fixture->directory, name);
	write_file(path, "{}\n", 3);
}

static void test_paths(void **state)
{
	static const char *const names[] = { "t.pfw",	   "t.2.pfw.gz", "t-rank0001.pfw",
					     "t.pfw.idx",  "tt.pfw",	 "t.manifest.json",
					     "t.x.pfw.gz", "notes.txt" };
	struct fixture *fixture = *state;
	struct pfw_paths paths = { 0 };
	const char *why;
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		touch(fixture, names[i]);
	assert_int_equal(pfw_paths_add(&paths, fixture->directory, &why), 0);
	assert_int_equal(paths.count, 5);
	pfw_paths_free(&paths);
	snprintf(path, sizeof(path), "%s/t", fixture->directory);
	assert_int_equal(pfw_paths_add(&paths, path, &why), 0);
	assert_int_equal(paths.count, 3);
	assert_non_null(strstr(paths.path[0], "t-rank0001.pfw"));
	pfw_paths_free(&paths);
	snprintf(path, sizeof(path), "%s/t.*", fixture->directory);
	assert_int_equal(pfw_paths_add(&paths, path, &why), 0);
	assert_int_equal(paths.count, 3);
	pfw_paths_free(&paths);
	snprintf(path, sizeof(path), "%s/none", fixture->directory);
	assert_int_equal(pfw_paths_add(&paths, path, &why), -ENOENT);
	assert_int_equal(paths.count, 0);
}

static const char process_line[] =
	"{\"id\":0,\"name\":\"process\",\"cat\":\"pfw\",\"pid\":7,\"tid\":7,\"ts\":1000.000,"
	"\"ph\":\"M\",\"args\":{\"format\":1,\"run\":\"r\\u00e9\",\"host\":\"h\",\"rank\":3,"
	"\"world_size\":8}}\n";
static const char end_line[] =
	"{\"id\":9,\"name\":\"end\",\"cat\":\"pfw\",\"pid\":7,\"tid\":7,\"ts\":3000.000,"
	"\"ph\":\"M\",\"args\":{\"events\":5,\"lost\":2,\"reason\":\"exit\"}}\n";

static void assert_trace(const char *path, bool ended)
{
	struct pfw_trace trace;

	assert_int_equal(pfw_trace_read(&trace, path), 0);
	assert_true(trace.ours);
	assert_string_equal(trace.run, "r\xc3\xa9");
	assert_int_equal(trace.rank, 3);
	assert_int_equal(trace.world_size, 8);
	assert_int_equal(trace.ended, ended);
	if (ended) {
		assert_int_equal(trace.events, 5);
		assert_int_equal(trace.lost, 2);
		assert_string_equal(trace.reason, "exit");
	}
}

static void test_first_and_last_line(void **state)
{
	struct fixture *fixture = *state;
	FILE *file = fopen(fixture->path, "wb");
	unsigned char bytes[4096];
	size_t used;

	fputs(process_line, file);
	for (int i = 0; i < 10000; i++)
		fputs(OURS "\n", file);
	fflush(file);
	assert_trace(fixture->path, false);
	fputs(end_line, file);
	fflush(file);
	assert_trace(fixture->path, true);
	fputs(OURS "\n", file);
	fclose(file);
	assert_trace(fixture->path, false);
	used = member(bytes, sizeof(bytes), process_line, sizeof(process_line) - 1, 1);
	used += member(bytes + used, sizeof(bytes) - used, end_line, sizeof(end_line) - 1, 1);
	write_file(fixture->path, bytes, used);
	assert_trace(fixture->path, true);
	write_file(fixture->path, bytes, used - 1);
	assert_trace(fixture->path, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_canonical_line_takes_the_fast_path),
		cmocka_unit_test(test_any_key_order_and_space),
		cmocka_unit_test(test_times_are_exact),
		cmocka_unit_test(test_number_of_400_digits_is_out_of_range),
		cmocka_unit_test(test_wrong_types_and_repeated_keys),
		cmocka_unit_test(test_what_is_no_json_is_refused),
		cmocka_unit_test(test_nesting_is_bounded),
		cmocka_unit_test(test_brackets_blanks_and_commas),
		cmocka_unit_test(test_integer_ph),
		cmocka_unit_test(test_args_are_found),
		cmocka_unit_test_setup_teardown(test_plain_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_places_are_right, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_dialects, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_line_that_is_too_long, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_gzip_bomb_is_read_in_bounded_memory, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_members_join_to_one_text, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cut_at_every_byte, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_damage_costs_one_member, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_wrong_crc_and_rubbish, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ten_thousand_members, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_no_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_paths, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_first_and_last_line, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
