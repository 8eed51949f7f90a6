/* test_json.c - every line is read back by an independent reader (jansson) and compared. */
#include "common/encode/encode.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/names.h"
#include "common/encode/text.h"
#include "json_world.h"
#include "random.h"

#if PFW_HAVE_JANSSON
#include <jansson.h>

static struct world world;

static int setup(void **state)
{
	(void)state;
	world_open(&world);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	world_close(&world);
	return 0;
}

/* ---- random values ---- */

/* Numbers of every length, so that each branch of the formatting is met. */
static uint64_t rnd_any(void)
{
	return any() >> (any() % 64);
}

/* Bytes of which most are letters, some need escaping and some are no UTF-8. */
static size_t rnd_text(char *text, size_t most)
{
	static const char *const pieces[] = { "\"",
					      "\\",
					      "\n",
					      "\x01",
					      "\x7f",
					      "/",
					      "\xc3\xa4",
					      "\xe2\x82\xac",
					      "\xf0\x9f\x98\x80",
					      "\xff",
					      "\xed\xa0\x80",
					      "\xc3",
					      "\xe2\x82",
					      "\0" };
	size_t bytes = 0, wanted = any() % (most + 1);
	bool wild = any() % 2;

	while (bytes < wanted) {
		const char *piece = pieces[any() % 14];
		size_t length = *piece ? strlen(piece) : 1;

		if (!wild || any() % 4 || bytes + length > wanted) {
			text[bytes++] = (char)('a' + any() % 26);
			continue;
		}
		memcpy(text + bytes, piece, length);
		bytes += length;
	}
	return bytes;
}

/* ---- reading lines back ---- */

static char *encode_tail(const struct pfw_record *record, const void *tail, size_t tail_bytes)
{
	char *exact = malloc(tail_bytes ? tail_bytes : 1), *end;

	if (tail_bytes)
		memcpy(exact, tail, tail_bytes); /* a read behind it is seen by a sanitizer */
	memset(world.line, '#', PFW_JSON_LINE_MAX + PFW_JSON_SLACK);
	end = pfw_json_record(&world.json, world.line, record, exact, tail_bytes, WORLD_TID);
	free(exact);
	if (end) {
		assert_true(end - world.line <= (ptrdiff_t)PFW_JSON_LINE_MAX);
		/* What names a lane that has no line yet writes nothing. */
		assert_true(end > world.line ? end[-1] == '\n'
					     : record->flags & PFW_RECORD_LANE_NAME);
		*end = '\0';
	}
	return end;
}

static const char *encode(const struct pfw_record *record)
{
	assert_non_null(encode_tail(record, "", 0));
	return world.line;
}

static json_t *parse(const char *line)
{
	json_error_t error;
	json_t *parsed;

	assert_non_null(strchr(line, '\n'));
	assert_string_equal(strchr(line, '\n'), "\n"); /* one line */
	parsed = json_loadb(line, strlen(line), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	if (!parsed)
		fail_msg("%s at %d of: %s", error.text, error.position, line);
	return parsed;
}

static json_t *args_of(json_t *line)
{
	return json_object_get(line, "args");
}

/* The keys of an object in the order in which they stand, with a space behind each. */
static const char *key_list(json_t *object)
{
	static char list[4096];
	const char *key;
	json_t *value;

	list[0] = '\0';
	json_object_foreach(object, key, value)
		strcat(strcat(list, key), " ");
	return list;
}

static void assert_text(json_t *value, const char *text, size_t bytes)
{
	assert_true(json_is_string(value));
	assert_int_equal(json_string_length(value), bytes);
	assert_memory_equal(json_string_value(value), text, bytes);
}

/* The same for text that may be bad UTF-8: then something must say that it was. */
static void assert_text_or_bad(json_t *value, const char *text, size_t bytes)
{
	json_t *same = json_stringn(text, bytes); /* NULL where it is not UTF-8 */

	assert_true(json_is_string(value));
	if (same)
		assert_text(value, text, bytes);
	else
		assert_non_null(memmem(json_string_value(value), json_string_length(value),
				       "\xef\xbf\xbd", 3));
	json_decref(same);
}

/* ---- calls ---- */

static void test_pread_line(void **state)
{
	uint32_t file = world_string(&world, "/data/train/part-0001.bin", 25);
	struct pfw_record record = world_pread(file, 0);

	(void)state;
	world.json.next_id = 12;
	assert_string_equal(
		encode(&record),
		"{\"id\":12,\"name\":\"pread\",\"cat\":\"POSIX\",\"pid\":8978,\"tid\":8979,"
		"\"ts\":1795230878627639.123,\"dur\":0.412,\"ph\":\"X\",\"args\":{"
		"\"fname\":\"/data/train/part-0001.bin\",\"fd\":3,\"ret\":4096,"
		"\"count\":4096,\"offset\":0}}\n");
	assert_int_equal(world.json.next_id, 13);
	assert_int_equal(world.json.events, 1);
	assert_int_equal(world.json.lines, 1);
	assert_true(world.json.least_ns == 1795230878627639123u);
	assert_true(world.json.greatest_ns == 1795230878627639535u);
}

static void test_failed_call(void **state)
{
	struct pfw_record record = world_pread(0, 0);
	json_t *line;

	(void)state;
	record.value[0] = (uint64_t)-1;
	record.value[3] = (uint64_t)INT64_MIN;
	record.error = EBADF;
	line = parse(encode(&record));
	assert_string_equal(key_list(line), "id name cat pid tid ts dur ph args ");
	assert_string_equal(key_list(args_of(line)), "fname fd ret errno count offset ");
	assert_true(json_is_null(json_object_get(args_of(line), "fname")));
	assert_int_equal(json_integer_value(json_object_get(args_of(line), "ret")), -1);
	assert_true(json_integer_value(json_object_get(args_of(line), "offset")) == INT64_MIN);
	assert_text(json_object_get(args_of(line), "errno"), "EBADF", 5);
	json_decref(line);

	record.error = 4095;
	assert_non_null(strstr(encode(&record), ",\"errno\":\"4095\","));
	record.error = INT32_MIN;
	assert_non_null(strstr(encode(&record), ",\"errno\":\"-2147483648\","));
	record.flags = PFW_RECORD_NO_RET | PFW_RECORD_NO_FD;
	record.error = 0;
	assert_non_null(strstr(encode(&record), "{\"fname\":null,\"count\":4096,\"offset\":-9223"));
}

static void test_settings(void **state)
{
	struct pfw_record record = world_pread(0, 0);

	(void)state;
	record.t0 += 400; /* …639.523; ends at …639.935 */
	world.json.whole_us = true;
	assert_non_null(strstr(encode(&record), "\"ts\":1795230878627639,\"dur\":0,\"ph\""));
	record.dur = 480; /* ends at …640.003: a whole µs later */
	assert_non_null(strstr(encode(&record), "\"ts\":1795230878627639,\"dur\":1,\"ph\""));
	world.json.metadata = false;
	world.json.disable_tids = true;
	assert_non_null(strstr(encode(&record), "\"pid\":8978,\"tid\":8978,\"ts\""));
	assert_non_null(strstr(encode(&record), ",\"ph\":\"X\",\"args\":{}}\n"));
}

static void test_times(void **state)
{
	static const struct {
		uint64_t t0, dur;
		const char *text;
	} cases[] = {
		{ 0, 0, "\"ts\":0.000,\"dur\":0.000," },
		{ 999999999, 1, "\"ts\":999999.999,\"dur\":0.001," },
		{ 1000000000, 99999999, "\"ts\":1000000.000,\"dur\":99999.999," },
		{ 1000000001, 100000000, "\"ts\":1000000.001,\"dur\":100000.000," },
		{ 1795230878000000007, 9000000000000000000 - 1795230878000000007,
		  "\"ts\":1795230878000000.007,\"dur\":7204769121999999.993," },
		{ UINT64_MAX, 5, "\"ts\":9223372036854775.807,\"dur\":0.000," },
		{ 5, (uint64_t)-7, "\"ts\":0.005,\"dur\":0.000," },
	};
	struct pfw_record record = world_pread(0, 0);

	(void)state;
	record.flags = PFW_RECORD_EPOCH_NS;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		record.t0 = cases[i].t0;
		record.dur = cases[i].dur;
		assert_non_null(strstr(encode(&record), cases[i].text));
	}
	assert_int_equal(world.json.negative, 1);
}

/* Any time, in any order of seconds, is written exactly. */
static void test_random_times(void **state)
{
	struct pfw_record record = world_pread(0, 0);
	char text[96];

	(void)state;
	record.flags = PFW_RECORD_EPOCH_NS;
	for (int i = 0; i < 20000; i++) {
		record.t0 = i % 3 ? rnd_any() >> 1 : 1795230878000000000 + any() % 3000000000;
		record.dur = rnd_any() % (INT64_MAX - record.t0 + 1);
		world.json.whole_us = i % 7 == 0;
		if (world.json.whole_us)
			snprintf(text, sizeof(text), "\"ts\":%lu,\"dur\":%lu,\"ph\"",
				 record.t0 / 1000,
				 (record.t0 + record.dur) / 1000 - record.t0 / 1000);
		else
			snprintf(text, sizeof(text), "\"ts\":%lu.%03lu,\"dur\":%lu.%03lu,\"ph\"",
				 record.t0 / 1000, record.t0 % 1000, record.dur / 1000,
				 record.dur % 1000);
		if (!strstr(encode(&record), text))
			fail_msg("%s not in %s", text, world.line);
	}
}

/* Ticks in any order, over a map of many lines that changes meanwhile: as the map itself says. */
static void test_ticks(void **state)
{
	struct pfw_clock_map *map = &world.clock;
	struct pfw_record record = world_pread(0, 0);
	char text[96];

	(void)state;
	*map = (struct pfw_clock_map){ .count = 3, .real_offset_ns = 1795230878000000000 };
	map->first = (struct pfw_clock_pair){ 1000000, 0, 0, 1ull << 31 };
	map->pair[0] = (struct pfw_clock_pair){ 3000000, 1000000, 0, 3ull << 32 };
	map->pair[1] = (struct pfw_clock_pair){ 4000000, 4000000, 0, 1ull << 30 };
	map->pair[2] = (struct pfw_clock_pair){ 8000000, 5000000, 0, 1ull << 32 };
	for (int i = 0; i < 20000; i++) {
		uint64_t start, end;

		if (i % 100 == 0) { /* as pfw_clock_map_update() does at a step */
			map->version++;
			map->real_offset_ns += 1000001;
		}
		record.t0 = i % 50 ? any() % 10000000 : any();
		record.dur = i % 70 ? any() % 3000000 : any() >> 1;
		start = pfw_clock_map_epoch_ns(map, record.t0);
		end = record.t0 + record.dur < record.t0 ? UINT64_MAX : record.t0 + record.dur;
		end = pfw_clock_map_epoch_ns(map, end);
		snprintf(text, sizeof(text), "\"ts\":%lu.%03lu,\"dur\":%lu.%03lu,\"ph\"",
			 start / 1000, start % 1000, (end - start) / 1000, (end - start) % 1000);
		if (!strstr(encode(&record), text))
			fail_msg("%s not in %s", text, world.line);
	}
	world_close(&world);
	world_open(&world);
}

/* Numbers that repeat come from text that is kept: never that of another number or key. */
static void test_repeating_values(void **state)
{
	static const uint64_t few[] = {
		0, 1, 3, 4096, 99999999, 100000000, (uint64_t)-1, 1ull << 63, INT64_MAX
	};
	struct pfw_record record = world_pread(0, 0);
	char text[160];

	(void)state;
	for (unsigned i = 0; i < random_cases(50000); i++) {
		for (int k = 0; k < 4; k++)
			if (any() % 3 == 0)
				record.value[k] = few[any() % 9];
		snprintf(text, sizeof(text),
			 "\"fd\":%ld,\"ret\":%ld,\"count\":%lu,\"offset\":%ld}}\n",
			 (int64_t)record.value[1], (int64_t)record.value[0], record.value[2],
			 (int64_t)record.value[3]);
		if (!strstr(encode(&record), text))
			fail_msg("%s not in %s", text, world.line);
	}
}

/* Ids go on from wherever the caller puts them. */
static void test_ids(void **state)
{
	struct pfw_record record = world_pread(0, 0);
	char text[64];

	(void)state;
	for (uint64_t i = 0; i < 3000; i++) {
		if (i % 500 == 0)
			world.json.next_id = i * i * i * 97;
		if (i % 7 == 0) { /* a record that makes no line takes no id */
			record.template = WORLD_NOTHING;
			assert_null(encode_tail(&record, "", 0));
			record.template = WORLD_PREAD;
			record.flags = PFW_RECORD_NAME_INLINE;
			record.file = 1;
			assert_null(encode_tail(&record, "", 0));
			record.flags = 0;
			record.file = 0;
		}
		snprintf(text, sizeof(text), "{\"id\":%lu,\"name\"", world.json.next_id);
		assert_memory_equal(encode(&record), text, strlen(text));
	}
}

/* ---- names ---- */

static void test_names(void **state)
{
	static const char bad[] = "/tmp/\xff\xfe name";
	char tail[64] = { 0 }, inline_line[1024];
	uint32_t file = world_string(&world, bad, sizeof(bad) - 1);
	struct pfw_record record = world_pread(file, 0);

	(void)state;
	memcpy(tail, bad, sizeof(bad) - 1);
	for (int i = 0; i < 2; i++) { /* the second time from the memo */
		json_t *line = parse(encode(&record));

		assert_string_equal(key_list(args_of(line)),
				    "fname fname_b64 fd ret count offset ");
		assert_text(json_object_get(args_of(line), "fname"),
			    "/tmp/\xef\xbf\xbd\xef\xbf\xbd name", 16);
		assert_text(json_object_get(args_of(line), "fname_b64"), "L3RtcC///iBuYW1l", 16);
		json_decref(line);
	}
	/* The same name in the record itself makes the same line. */
	strcpy(inline_line, strstr(encode(&record), "\"name\""));
	record.flags = PFW_RECORD_NAME_INLINE;
	record.file = sizeof(bad) - 1;
	assert_non_null(encode_tail(&record, tail, 25));
	assert_string_equal(strstr(world.line, "\"name\""), inline_line);
}

static void test_long_names(void **state)
{
	char name[9000];

	(void)state;
	for (size_t bytes = 1; bytes < sizeof(name); bytes = bytes < 300 ? bytes + 1 : bytes * 2) {
		struct pfw_record record;
		json_t *line;

		memset(name, 'n', bytes);
		world.next_granule = 1;
		memset(world.segment, 0, PFW_STRING_SEGMENT_BYTES);
		world_reset(&world);
		record = world_pread(world_string(&world, name, bytes), 0);
		encode(&record);
		line = parse(encode(&record));
		assert_text(json_object_get(args_of(line), "fname"), name, bytes);
		json_decref(line);
	}
}

/* A closed file's cell is used again: its old reference is no name, the new one the new name. */
static void test_stale_names(void **state)
{
	uint32_t file = world_string(&world, "/tmp/first", 10), again;
	struct pfw_string *cell = world_cell(&world, file);
	struct pfw_record record = world_pread(file, 0);

	(void)state;
	assert_non_null(strstr(encode(&record), "\"/tmp/first\""));
	memcpy(cell->text, "/tmp/other", 10);
	atomic_store(&cell->generation, 3);
	again = pfw_string_ref(3, file & 0xffff);
	record.file = again;
	assert_non_null(strstr(encode(&record), "\"/tmp/other\""));
	record.file = file;
	assert_non_null(strstr(encode(&record), "\"fname\":null,"));
	atomic_store(&cell->generation, 4); /* free */
	world_reset(&world);
	record.file = pfw_string_ref(4, file & 0xffff);
	assert_non_null(strstr(encode(&record), "\"fname\":null,"));
}

static void test_string_text(void **state)
{
	struct pfw_string_view none = { { NULL } };
	uint32_t bytes = 0, ref = world_string(&world, "abc", 3);
	struct pfw_string *last;

	(void)state;
	assert_memory_equal(pfw_string_text(&world.view, ref, &bytes), "abc", 3);
	assert_int_equal(bytes, 3);
	assert_null(pfw_string_text(&none, ref, &bytes));
	assert_null(pfw_string_text(&world.view, 0, &bytes));
	assert_null(pfw_string_text(&world.view, ref | 2u << 16, &bytes));
	assert_null(pfw_string_text(&world.view, ref | 0x1000, &bytes)); /* segment 1 */
	assert_null(pfw_string_text(&world.view, 1u << 16, &bytes)); /* the segment's own head */
	/* A length that runs over the segment's end. */
	last = (struct pfw_string *)(world.segment + 4094 * 16);
	atomic_store(&last->generation, 1);
	last->bytes = 16;
	assert_non_null(pfw_string_text(&world.view, 1u << 16 | 4094, &bytes));
	last->bytes = 17;
	assert_null(pfw_string_text(&world.view, 1u << 16 | 4094, &bytes));
}

/* ---- every type ---- */

struct tail {
	char at[PFW_RECORD_SLOTS_MAX * PFW_SLOT_BYTES];
	size_t bytes;
};

static void add_bytes(struct tail *tail, const void *bytes, size_t count)
{
	memcpy(tail->at + tail->bytes, bytes, count);
	tail->bytes += count;
}

static void set_value(struct pfw_record *record, struct tail *tail, unsigned int index,
		      uint64_t value)
{
	if (index < PFW_RECORD_VALUES)
		record->value[index] = value;
	else
		add_bytes(tail, &value, 8);
}

static void assert_double(json_t *value, uint64_t bits)
{
	double expected, got;

	memcpy(&expected, &bits, 8);
	if (!isfinite(expected)) {
		assert_true(json_is_null(value));
		return;
	}
	assert_true(json_is_real(value));
	got = json_real_value(value);
	assert_memory_equal(&got, &expected, 8);
}

static void assert_dim3(json_t *value, uint64_t dim)
{
	assert_int_equal(json_array_size(value), 3);
	assert_int_equal(json_integer_value(json_array_get(value, 0)), dim & 0x7fffffff);
	assert_int_equal(json_integer_value(json_array_get(value, 1)), dim >> 31 & 0xffff);
	assert_int_equal(json_integer_value(json_array_get(value, 2)), dim >> 47 & 0xffff);
}

/* One value of a record against what the line says; text is what a STRING or JSON was given. */
static void assert_value(json_t *got, unsigned int type, uint64_t value, const char *text)
{
	switch (type) {
	case PFW_TYPE_I64:
	case PFW_TYPE_U64:
		assert_true(json_is_integer(got) && (uint64_t)json_integer_value(got) == value);
		break;
	case PFW_TYPE_F64:
		assert_double(got, value);
		break;
	case PFW_TYPE_BOOL:
		assert_true(value ? json_is_true(got) : json_is_false(got));
		break;
	case PFW_TYPE_DIM3:
		assert_dim3(got, value);
		break;
	case PFW_TYPE_KIND:
		assert_string_equal(json_string_value(got), pfw_kind_name(value));
		break;
	case PFW_TYPE_STRING:
		assert_text_or_bad(got, text, value);
		break;
	case PFW_TYPE_JSON: {
		json_t *same = json_loadb(text, value, JSON_DECODE_ANY, NULL);

		if (same)
			assert_true(json_equal(same, got));
		else
			assert_text_or_bad(got, text, value);
		json_decref(same);
		break;
	}
	default:
		fail();
	}
}

/* A random value of that type; STRING and JSON put their bytes into text. */
static uint64_t rnd_value(unsigned int type, char *text, size_t most)
{
	static const char *const json[] = { "[1,2,{\"a\":null}]",
					    "{\n\t\"b\" :\r[true]}",
					    "[[8,16],[]]",
					    "not json",
					    "[1",
					    "\"x\"",
					    "-0.5e3",
					    "\"\\ud800\"" };

	switch (type) {
	case PFW_TYPE_U64:
		return rnd_any() >> 1; /* jansson's integers are signed */
	case PFW_TYPE_I64:
		return any() % 2 ? rnd_any() : -rnd_any();
	case PFW_TYPE_BOOL:
		return any() % 2;
	case PFW_TYPE_KIND:
		return any() % 11;
	case PFW_TYPE_DIM3:
		return any() >> 1;
	case PFW_TYPE_STRING:
		return rnd_text(text, most);
	case PFW_TYPE_JSON:
		return strlen(strcpy(text, json[any() % 8]));
	default:
		return any();
	}
}

static void test_every_field(void **state)
{
	static char texts[PFW_TEMPLATE_FIELDS][256];
	const struct pfw_key *keys = world_keys();
	uint32_t other = world_string(&world, "a \"name\"", 8);
	const struct pfw_template *template = &world.templates->template[WORLD_EVERY];

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct pfw_record record = { .template = WORLD_EVERY, .error = round % 3 };
		uint64_t value[PFW_TEMPLATE_FIELDS];
		struct tail tail = { .bytes = 0 };
		json_t *line, *args;
		int i;

		record.flags = PFW_RECORD_NAME_INLINE;
		set_value(&record, &tail, 0, rnd_any());
		for (i = 0; i < PFW_TEMPLATE_FIELDS; i++) {
			unsigned int type = keys[template->field[i]].type;

			value[i] = type == PFW_TYPE_REF ? other : rnd_value(type, texts[i], 255);
			set_value(&record, &tail, (unsigned int)i + 1, value[i]);
		}
		record.file = 3;
		add_bytes(&tail, "/ab", 3);
		for (i = 0; i < PFW_TEMPLATE_FIELDS; i++)
			if (keys[template->field[i]].type == PFW_TYPE_STRING ||
			    keys[template->field[i]].type == PFW_TYPE_JSON)
				add_bytes(&tail, texts[i], value[i]);
		/* One byte less is not enough; the room behind does not matter. */
		assert_null(encode_tail(&record, tail.at, tail.bytes - 1));
		assert_non_null(encode_tail(&record, tail.at, tail.bytes + round % 64));
		line = parse(world.line);
		args = args_of(line);
		assert_text(json_object_get(args, "fname"), "/ab", 3);
		for (i = 0; i < PFW_TEMPLATE_FIELDS; i++) {
			const struct pfw_key *key = &keys[template->field[i]];
			json_t *got = json_object_get(args, key->name);

			if (key->type == PFW_TYPE_REF)
				assert_text(got, "a \"name\"", 8);
			else
				assert_value(got, key->type, value[i], texts[i]);
		}
		assert_string_equal(
			key_list(args),
			record.error
				? "fname fd ret errno flags ratio ok shape other grid kind target "
				: "fname fd ret flags ratio ok shape other grid kind target ");
		json_decref(line);
	}
}

static void test_long_values(void **state)
{
	struct pfw_record record = { .template = WORLD_LONG, .value = { 1, 2, 3, 4 } };
	uint64_t rest[6] = { 5, 6, 7, 8, 9, (uint64_t)-10 };

	(void)state;
	assert_null(encode_tail(&record, rest, sizeof(rest) - 1));
	assert_non_null(encode_tail(&record, rest, sizeof(rest)));
	assert_non_null(strstr(world.line,
			       "\"ret\":1,\"count\":3,\"offset\":4,\"flags\":5,\"count\":6,"
			       "\"offset\":7,\"flags\":8,\"count\":9,\"\\\"\\\\\\u0001"));
	assert_non_null(strstr(world.line, "\\u0015\":-10}}\n"));
}

static void test_templates_that_say_nothing(void **state)
{
	static const unsigned int numbers[] = { WORLD_NOTHING, WORLD_BAD_KEY, WORLD_BAD_COUNT,
						WORLD_TEMPLATES, 0xffff };
	char tail[64] = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct pfw_record record = world_pread(0, 0);

		record.template = (uint16_t)numbers[i];
		assert_null(encode_tail(&record, tail, 25));
		assert_null(encode_tail(&record, tail, 25));
	}
	assert_int_equal(world.json.lines, 0);
	assert_int_equal(world.json.next_id, 0);
}

/* ---- API ---- */

static void add_arg(struct tail *tail, const char *key, unsigned int type, const void *value,
		    size_t bytes)
{
	struct pfw_arg arg = { .key_bytes = (uint16_t)strlen(key),
			       .type = (uint8_t)type,
			       .value_bytes = (uint32_t)bytes };

	add_bytes(tail, &arg, sizeof(arg));
	add_bytes(tail, key, strlen(key));
	add_bytes(tail, value, bytes);
}

static void add_all_args(struct tail *tail)
{
	int64_t number = -3;
	uint64_t great = 1ull << 60, yes = 1;
	double half = 0.5;

	add_arg(tail, "n", PFW_TYPE_I64, &number, 8);
	add_arg(tail, "g", PFW_TYPE_U64, &great, 8);
	add_arg(tail, "h", PFW_TYPE_F64, &half, 8);
	add_arg(tail, "y", PFW_TYPE_BOOL, &yes, 8);
	add_arg(tail, "s \"q\"", PFW_TYPE_STRING, "text", 4);
	add_arg(tail, "j", PFW_TYPE_JSON, "[1]", 3);
	add_arg(tail, "e", PFW_TYPE_STRING, "", 0);
}

static void test_api_span(void **state)
{
	uint32_t name = world_string(&world, "forward", 7);
	struct pfw_record record = { .template = WORLD_API, .dur = 1500, .t0 = 31530878627639123 };
	struct tail tail = { .bytes = 0 };

	(void)state;
	add_all_args(&tail);
	record.value[0] = name;
	record.value[1] = 77;
	record.value[3] = tail.bytes;
	assert_non_null(encode_tail(&record, tail.at, tail.bytes));
	assert_string_equal(
		world.line,
		"{\"id\":0,\"name\":\"forward\",\"cat\":\"app\",\"pid\":8978,\"tid\":8979,"
		"\"ts\":1795230878627639.123,\"dur\":1.500,\"ph\":\"X\",\"args\":{"
		"\"n\":-3,\"g\":1152921504606846976,\"h\":0.5,\"y\":true,"
		"\"s \\\"q\\\"\":\"text\",\"j\":[1],\"e\":\"\",\"span_id\":77}}\n");
	for (size_t bytes = 0; bytes < tail.bytes; bytes++) /* cut anywhere it is no record */
		assert_null(encode_tail(&record, tail.at, bytes));
	record.value[2] = 76;
	record.value[3] = 0;
	assert_non_null(strstr(encode(&record), "\"args\":{\"span_id\":77,\"parent\":76}}\n"));
	record.value[0] = pfw_string_ref(9, name & 0xffff); /* stale */
	assert_non_null(strstr(encode(&record), "\"name\":\"(unknown)\",\"cat\":\"app\""));
}

/* A blob whose lengths do not add up is no record, wherever it is wrong. */
static void test_api_bad_blobs(void **state)
{
	struct pfw_record record = { .template = WORLD_API };
	struct tail tail = { .bytes = 0 };
	size_t whole = 0;

	(void)state;
	add_all_args(&tail);
	for (size_t bytes = 1; bytes < tail.bytes; bytes++) {
		record.value[3] = bytes;
		whole += encode_tail(&record, tail.at, bytes) != NULL;
	}
	assert_int_equal(whole, 6); /* the ends of the six arguments before the last */
	record.value[3] = tail.bytes;
	tail.at[4] = 7; /* a number of seven bytes */
	assert_null(encode_tail(&record, tail.at, tail.bytes));
	tail.at[4] = 8;
	tail.at[2] = PFW_TYPE_REF; /* not a type of arguments */
	assert_null(encode_tail(&record, tail.at, tail.bytes));
	record.value[3] = UINT64_MAX;
	assert_null(encode_tail(&record, tail.at, tail.bytes));
}

static void test_api_inline(void **state)
{
	struct pfw_record record = { .template = WORLD_API,
				     .file = 4 | 3u << 16,
				     .value = { 0, 5 } };

	(void)state;
	assert_non_null(encode_tail(&record, "a\"bcX\nY", 7));
	assert_non_null(strstr(world.line, "\"name\":\"a\\\"bc\",\"cat\":\"X\\nY\",\"pid\""));
	assert_null(encode_tail(&record, "a\"bcX\nY", 6));
	record.value[0] = world_string(&world, "named", 5); /* then only the category is inline */
	assert_non_null(encode_tail(&record, "X\nY", 3));
	assert_non_null(strstr(world.line, "\"name\":\"named\",\"cat\":\"X\\nY\",\"pid\""));
}

static void test_instants_and_counters(void **state)
{
	struct pfw_record record = { .template = WORLD_API, .dur = (uint64_t)-5 };
	struct tail tail = { .bytes = 0 };

	(void)state;
	add_all_args(&tail);
	record.t0 = 31530878627639123;
	record.value[0] = world_string(&world, "mark", 4);
	record.value[1] = 9;
	record.value[2] = 8;
	record.value[3] = tail.bytes;
	record.flags = PFW_RECORD_INSTANT;
	assert_non_null(encode_tail(&record, tail.at, tail.bytes));
	assert_non_null(
		strstr(world.line, "\"ts\":1795230878627639.123,\"ph\":\"i\",\"args\":{\"n\":-3"));
	assert_null(strstr(world.line, "span_id"));
	assert_null(strstr(world.line, "parent"));
	record.flags = PFW_RECORD_COUNTER;
	assert_non_null(encode_tail(&record, tail.at, tail.bytes));
	assert_non_null(strstr(world.line, "\"cat\":\"COUNTER\","));
	assert_non_null(strstr(world.line,
			       "\"ph\":\"C\",\"args\":{\"n\":-3,\"g\":1152921504606846976,"
			       "\"h\":0.5}}\n"));
	assert_int_equal(world.json.negative, 0);
}

/* ---- PP ---- */

static const struct {
	const char *name;
	unsigned int type;
} pp_fields[] = {
#define X(name, type) { #name, PFW_TYPE_##type },
	PFW_PP_FIELDS(X)
#undef X
};

/* A random compute event: what it holds goes into value and texts. */
static void make_pp(struct pfw_record *record, struct tail *tail, uint64_t *value,
		    char (*texts)[128], const char *name)
{
	uint64_t mask = any() & any() & ((1ull << PFW_PP_BITS) - 1);
	unsigned int bit, index = PFW_PP_HEAD;

	tail->bytes = 0;
	record->value[0] = 0;
	record->value[1] = mask;
	record->value[2] = 4711;
	record->file = (uint32_t)strlen(name);
	for (bit = 0; bit < PFW_PP_BITS; bit++) {
		if (!(mask >> bit & 1))
			continue;
		value[bit] = rnd_value(pp_fields[bit].type, texts[bit], 127);
		set_value(record, tail, index++, value[bit]);
	}
	add_bytes(tail, name, strlen(name));
	for (bit = 0; bit < PFW_PP_BITS; bit++)
		if ((mask >> bit & 1) && (pp_fields[bit].type == PFW_TYPE_STRING ||
					  pp_fields[bit].type == PFW_TYPE_JSON))
			add_bytes(tail, texts[bit], value[bit]);
}

static void test_pp(void **state)
{
	static char texts[PFW_PP_BITS][128];
	uint64_t value[PFW_PP_BITS];

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct pfw_record record = { .template = WORLD_PP };
		struct tail tail;
		char keys[4096] = "";
		json_t *line;

		record.flags = round % 3 == 1	? PFW_RECORD_WARMUP
			       : round % 3 == 2 ? PFW_RECORD_ACTIVE
						: 0;
		make_pp(&record, &tail, value, texts, "aten::linear");
		assert_null(encode_tail(&record, tail.at, tail.bytes - 1));
		assert_non_null(encode_tail(&record, tail.at, tail.bytes));
		line = parse(world.line);
		assert_string_equal(json_string_value(json_object_get(line, "name")),
				    "aten::linear");
		assert_string_equal(json_string_value(json_object_get(line, "cat")), "PP");
		assert_int_equal(json_integer_value(json_object_get(line, "tid")), 4711);
		for (unsigned int bit = 0; bit < PFW_PP_BITS; bit++) {
			if (!(record.value[1] >> bit & 1))
				continue;
			strcat(strcat(keys, pp_fields[bit].name), " ");
			assert_value(json_object_get(args_of(line), pp_fields[bit].name),
				     pp_fields[bit].type, value[bit], texts[bit]);
		}
		if (record.flags)
			strcat(keys, "phase ");
		assert_string_equal(key_list(args_of(line)), keys);
		json_decref(line);
	}
}

/* A kernel on that stream, without a tid of its own. */
static struct pfw_record make_kernel(uint64_t device_index, uint64_t context, uint64_t stream,
				     uint64_t *tail)
{
	struct pfw_record record = { .template = WORLD_PP, .t0 = 31530878627639123, .file = 1 };

	record.value[1] = 1ull << PFW_PP_BIT_device | 1ull << PFW_PP_BIT_device_index |
			  1ull << PFW_PP_BIT_context | 1ull << PFW_PP_BIT_stream;
	record.value[3] = 1; /* CUDA */
	tail[0] = device_index;
	tail[1] = context;
	tail[2] = stream;
	memcpy(tail + 3, "k", 1);
	return record;
}

/* The tid of such a kernel's line; *named says whether its lane's name came before it. */
static uint64_t lane_tid(uint64_t device_index, uint64_t context, uint64_t stream, bool *named)
{
	uint64_t tail[4], tid;
	struct pfw_record record = make_kernel(device_index, context, stream, tail);
	char *second, expected[64];
	json_t *line;

	assert_non_null(encode_tail(&record, tail, 25));
	second = strchr(world.line, '\n') + 1;
	*named = *second != '\0';
	line = parse(*named ? second : world.line);
	tid = (uint64_t)json_integer_value(json_object_get(line, "tid"));
	json_decref(line);
	if (*named) {
		*second = '\0';
		line = parse(world.line);
		assert_string_equal(key_list(line), "id name cat pid tid ts ph args ");
		assert_int_equal(json_integer_value(json_object_get(line, "tid")), tid);
		snprintf(expected, sizeof(expected), "GPU %lu stream %lu", device_index, stream);
		assert_string_equal(json_string_value(json_object_get(args_of(line), "name")),
				    expected);
		json_decref(line);
	}
	return tid;
}

static void test_lanes(void **state)
{
	bool named;

	(void)state;
	assert_int_equal(lane_tid(0, 1, 7, &named), 10001007);
	assert_true(named);
	assert_int_equal(world.json.next_id, 2);
	assert_int_equal(world.json.events, 1);
	assert_int_equal(world.json.lines, 2);
	assert_int_equal(lane_tid(0, 1, 7, &named), 10001007);
	assert_false(named);
	assert_int_equal(lane_tid(3, 2, 13, &named), 40002013);
	assert_true(named);
	/* Numbers that others have already: the next free one, and the same one again later. */
	assert_int_equal(lane_tid(0, 1, 1007, &named), 10001008);
	assert_true(named);
	assert_int_equal(lane_tid(0, 10001, 7, &named), 10001009);
	assert_int_equal(lane_tid(0, 1, 8, &named), 10001010);
	assert_int_equal(lane_tid(0, 1, 1007, &named), 10001008);
	assert_false(named);
	/* Not on a device. */
	assert_int_equal(lane_tid((uint64_t)-1, 1, 7, &named), WORLD_TID);
	assert_false(named);
	world.json.disable_tids = true;
	assert_int_equal(lane_tid(0, 5, 5, &named), WORLD_PID);
}

/* Whatever the streams, no two lanes share a number while there is room to remember them. */
static void test_many_lanes(void **state)
{
	static uint64_t tids[PFW_JSON_LANES + 50];
	bool named;

	(void)state;
	for (int i = 0; i < PFW_JSON_LANES + 50; i++) {
		tids[i] = lane_tid((uint64_t)i % 3, (uint64_t)i / 97, (uint64_t)i * 500, &named);
		assert_true(named == (i < PFW_JSON_LANES));
		for (int k = 0; k < i && i < PFW_JSON_LANES; k++)
			assert_true(tids[k] != tids[i]);
	}
	for (int i = 0; i < PFW_JSON_LANES + 50; i++)
		assert_true(tids[i] ==
			    lane_tid((uint64_t)i % 3, (uint64_t)i / 97, (uint64_t)i * 500, &named));
}

/* A number that is written by its names is a text in each line, kept or not, long or short. */
static void test_args_with_names(void **state)
{
	static const struct {
		uint64_t flags;
		const char *text;
	} cases[] = {
		{ 0, "O_RDONLY" },
		{ 02 | 0100, "O_RDWR|O_CREAT" },
		{ 077777777, NULL }, /* too long to be kept */
		{ 1ull << 40 | 1, "O_WRONLY" },
	};
	struct pfw_record record = world_pread(0, 1);

	(void)state;
	world.templates->key[1].type = PFW_TYPE_NAMES + PFW_NAMES_opens;
	world_reset(&world);
	for (unsigned i = 0; i < 60; i++) {
		unsigned n = i / 4 % 2 ? i % 4 : i / 15;
		char wanted[64];

		record.value[2] = cases[n].flags;
		assert_non_null(encode_tail(&record, NULL, 0));
		snprintf(wanted, sizeof(wanted), "\"count\":\"%s\",\"off",
			 cases[n].text ? cases[n].text : "O_CREAT|O_EXCL");
		if (!cases[n].text)
			snprintf(wanted, sizeof(wanted), "|O_PATH|0x");
		assert_non_null(strstr(world.line, wanted));
		assert_non_null(strstr(world.line, "\",\"offset\":"));
	}
	world.templates->key[1].type = PFW_TYPE_U64;
	world_reset(&world);
}

/* A line says all of itself: what is usual, or what the line before said, is in it again. */
static void test_nothing_is_left_out(void **state)
{
	uint64_t tail[4];
	const uint64_t fields = 1ull << PFW_PP_BIT_grid | 1ull << PFW_PP_BIT_static_smem |
				1ull << PFW_PP_BIT_occupancy;
	struct pfw_record record = make_kernel(0, 1, 7, tail);
	const char *usual = "\"args\":{\"device\":1,\"device_index\":0,\"context\":1,\"stream\":7}";

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		record.flags ^= 128; /* older spools have a mark on records of GPU work */
		assert_non_null(encode_tail(&record, tail, 25));
		assert_non_null(strstr(world.line, usual));
		assert_non_null(strstr(world.line, "\"tid\":10001007,"));
	}
	record.value[1] = fields;
	record.value[3] = 5 | 1ull << 31 | 1ull << 47;
	memset(tail, 0, sizeof(tail));
	memcpy(&tail[2], "k", 1);
	for (unsigned i = 0; i < 2; i++) {
		assert_non_null(encode_tail(&record, tail, 17));
		assert_non_null(strstr(world.line, "\"args\":{\"grid\":[5,1,1],\"static_smem\":0,"
						   "\"occupancy\":0"));
	}
}

static void test_no_lane_without_device(void **state)
{
	uint64_t tail[4];
	struct pfw_record record = make_kernel(0, 1, 7, tail);

	(void)state;
	record.value[3] = 0; /* DeviceType CPU */
	assert_non_null(encode_tail(&record, tail, 25));
	assert_non_null(strstr(world.line, "\"tid\":8979,"));
	record.value[1] = 1ull << PFW_PP_BITS;
	assert_null(encode_tail(&record, tail, 25));
}

/* ---- limits ---- */

/* The longest records of each shape, of the bytes that grow most. */
static void test_longest_lines(void **state)
{
	static struct tail tail;
	static const char fills[] = { '\x01', '\xff', '"', 'x' };

	(void)state;
	for (size_t i = 0; i < sizeof(fills); i++) {
		struct pfw_record record = { .template = WORLD_RENAME,
					     .flags = PFW_RECORD_NAME_INLINE };
		size_t most = (PFW_RECORD_SLOTS_MAX - 1) * PFW_SLOT_BYTES;
		struct pfw_arg arg = { .key_bytes = 8000, .type = PFW_TYPE_STRING };

		memset(tail.at, fills[i], sizeof(tail.at));
		record.file = (uint32_t)most / 2;
		record.value[1] = most - most / 2;
		assert_non_null(encode_tail(&record, tail.at, most));
		json_decref(parse(world.line));
		record.file = (uint32_t)most;
		record.value[1] = 0;
		assert_non_null(encode_tail(&record, tail.at, most));
		json_decref(parse(world.line));

		record = (struct pfw_record){ .template = WORLD_API, .file = 4096 | 4096u << 16 };
		record.value[3] = most - 8192;
		arg.value_bytes = (uint32_t)(most - 8192 - sizeof(arg) - arg.key_bytes);
		memcpy(tail.at + 8192, &arg, sizeof(arg));
		assert_non_null(encode_tail(&record, tail.at, most));
		json_decref(parse(world.line));

		record = (struct pfw_record){ .template = WORLD_PP, .file = (uint32_t)most };
		assert_non_null(encode_tail(&record, tail.at, most));
		json_decref(parse(world.line));
		assert_null(encode_tail(&record, tail.at, most + 1));
	}
}

/* A string of the spool longer than a line may be: no line, and nothing written behind the limit. */
static void test_too_long(void **state)
{
	static char text[60000];
	struct pfw_record record;

	(void)state;
	memset(text, '\x01', sizeof(text));
	record = world_pread(world_string(&world, text, sizeof(text)), 0);
	assert_null(encode_tail(&record, "", 0));
	for (size_t i = PFW_JSON_LINE_MAX; i < PFW_JSON_LINE_MAX + PFW_JSON_SLACK; i++)
		assert_true(world.line[i] == '#');
	record = (struct pfw_record){ .template = WORLD_PP, .value = { record.file } };
	assert_null(encode_tail(&record, "", 0));
	record.template = WORLD_API;
	assert_null(encode_tail(&record, "", 0));
	assert_int_equal(world.json.lines, 0);
}

/* ---- strings ---- */

static void check_string(const char *text, size_t bytes)
{
	char *exact = malloc(bytes ? bytes : 1), *out = malloc(6 * bytes + 2 + PFW_JSON_SLACK),
	     *end;
	json_t *same = json_stringn(text, bytes), *got;
	bool valid;

	memcpy(exact, text, bytes);
	end = pfw_json_string(out, exact, bytes, &valid);
	assert_true(end - out <= (ptrdiff_t)(6 * bytes + 2));
	assert_true(valid == (same != NULL));
	got = json_loadb(out, (size_t)(end - out), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	assert_non_null(got);
	if (same)
		assert_true(json_equal(got, same));
	assert_true(pfw_json_valid(out, (size_t)(end - out)));
	json_decref(got);
	json_decref(same);
	free(exact);
	free(out);
}

static void test_strings(void **state)
{
	char text[300];

	(void)state;
	for (unsigned int i = 0; i < 0x10000; i++) {
		const char two[2] = { (char)(i >> 8), (char)i };

		check_string(two, i < 256 ? 1 + (i & 1) : 2);
	}
	for (int i = 0; i < 20000; i++)
		check_string(text, rnd_text(text, sizeof(text)));
	for (int i = 0; i < 20000; i++) {
		size_t bytes = any() % 24;

		for (size_t k = 0; k < bytes; k++)
			text[k] = (char)(any() % 4 ? 0x80 | any() : any());
		check_string(text, bytes);
	}
}

static void test_bad_utf8(void **state)
{
	static const struct {
		const char *text, *json;
	} cases[] = {
		{ "\xf0\x9f\x98", "\"\xef\xbf\xbd\"" }, /* one for each longest start */
		{ "\xf0\x9f\x98x", "\"\xef\xbf\xbdx\"" },
		{ "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" }, /* a surrogate */
		{ "\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"" }, /* a slash, too long */
		{ "\xf5", "\"\xef\xbf\xbd\"" },
		{ "\x7f\b\t\n\f\r\x1f\"\\/", "\"\x7f\\b\\t\\n\\f\\r\\u001f\\\"\\\\/\"" },
	};
	char out[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		*pfw_json_string(out, cases[i].text, strlen(cases[i].text), NULL) = '\0';
		assert_string_equal(out, cases[i].json);
	}
}

static void test_base64(void **state)
{
	static const struct {
		const char *text, *base64;
	} cases[] = { { "", "\"\"" },
		      { "f", "\"Zg==\"" },
		      { "fo", "\"Zm8=\"" },
		      { "foo", "\"Zm9v\"" },
		      { "foob", "\"Zm9vYg==\"" },
		      { "fooba", "\"Zm9vYmE=\"" },
		      { "\xff\xef", "\"/+8=\"" } };
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		*pfw_append_base64(out, cases[i].text, strlen(cases[i].text)) = '\0';
		assert_string_equal(out, cases[i].base64);
	}
}

/* ---- numbers ---- */

static void check_numbers(uint64_t value)
{
	char expected[64], got[64];

	snprintf(expected, sizeof(expected), "%lu %ld %lu.%03lu", value, (int64_t)value,
		 value / 1000, value % 1000);
	*pfw_append_u64(got, value) = '\0';
	strcat(got, " ");
	*pfw_append_i64(got + strlen(got), (int64_t)value) = '\0';
	strcat(got, " ");
	*pfw_append_us(got + strlen(got), value) = '\0';
	assert_string_equal(got, expected);
}

static void test_integers(void **state)
{
	uint64_t power = 1;

	(void)state;
	for (int i = 0; i < 20; i++, power *= 10) {
		check_numbers(power - 1);
		check_numbers(power);
		check_numbers(-power);
	}
	for (uint64_t i = 0; i < random_cases(200000); i++) {
		check_numbers(i);
		check_numbers(i * 499 + 97); /* up to 10^8, all digits */
		check_numbers(rnd_any());
	}
	check_numbers(UINT64_MAX);
	check_numbers(1ull << 63);
}

static void check_double(double value)
{
	char text[64], *end;
	uint64_t bits;
	double got;

	memcpy(&bits, &value, 8);
	*pfw_append_f64(text, bits) = '\0';
	assert_true(strlen(text) <= 26);
	if (!isfinite(value)) {
		assert_string_equal(text, "null");
		return;
	}
	assert_true(pfw_json_valid(text, strlen(text)));
	assert_non_null(strpbrk(text, ".e")); /* a float stays one */
	got = strtod(text, &end);
	if (*end || memcmp(&got, &value, 8) != 0)
		fail_msg("%.17g was written as %s", value, text);
}

static void test_doubles(void **state)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{ 0.0, "0.0" },
		{ -0.0, "-0.0" },
		{ 1.0, "1.0" },
		{ 0.1, "0.1" },
		{ -0.3, "-0.3" },
		{ 12.345678, "12.345678" },
		{ 1e15, "1000000000000000.0" },
		{ 0.00002, "0.00002" },
		{ 2.0 / 3, "0.6666666666666666" },
		{ 1e22, "1e+22" },
		{ 1.5e300, "1.5000000000000001e+300" },
		{ 9007199254740993.0, "9007199254740992.0" },
		{ 4.9406564584124654e-324, "4.9406564584124654e-324" },
		{ 1.7976931348623157e308, "1.7976931348623157e+308" },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bits;

		memcpy(&bits, &cases[i].value, 8);
		*pfw_append_f64(text, bits) = '\0';
		assert_string_equal(text, cases[i].text);
		check_double(cases[i].value);
	}
	for (unsigned i = 0; i < random_cases(200000); i++) {
		uint64_t bits = any();
		double value;

		memcpy(&value, &bits, 8);
		check_double(value);
		check_double((double)(any() % 1000000) / 1000);
		check_double((double)(int64_t)any() / 4611686018427387904.0);
	}
	for (int exponent = -1074; exponent < 1024; exponent++) {
		check_double(ldexp(1, exponent)); /* where the step below is half as wide */
		check_double(nextafter(ldexp(1, exponent), 0));
		check_double(nextafter(ldexp(1, exponent), INFINITY));
	}
	check_double(NAN);
	check_double(-INFINITY);
}

/* ---- is it JSON ---- */

static void test_valid(void **state)
{
	static const char *const good[] = { "0",
					    "-0",
					    " \t\r\n1 ",
					    "1.5",
					    "1e5",
					    "1E+05",
					    "-2.5e-7",
					    "\"\"",
					    "\"\\u00e4\\ud83d\\ude00\\n\"",
					    "[]",
					    "{}",
					    "[ ]",
					    "{ }",
					    "[1,[2,{\"a\":[]}]]",
					    "{\"a\":1,\"b\":{}}",
					    "true",
					    "false",
					    "null",
					    "1e308",
					    "179.76931348623157999e306",
					    "\"\xc3\xa4\"" };
	static const char *const bad[] = { "",
					   " ",
					   "01",
					   "+1",
					   "1.",
					   ".5",
					   "1e",
					   "1e+",
					   "-",
					   "--1",
					   "[1,]",
					   "[,1]",
					   "[1",
					   "1]",
					   "{\"a\"}",
					   "{\"a\":}",
					   "{a:1}",
					   "{\"a\":1,}",
					   "{,}",
					   "[1}",
					   "{\"a\":1]",
					   "1 2",
					   "tru",
					   "truex",
					   "nul",
					   "\"",
					   "\"\\x\"",
					   "\"\\u12\"",
					   "\"\\",
					   "\"\n\"",
					   "\"\x01\"",
					   "\"\xff\"",
					   "\"\xed\xa0\x80\"",
					   "\"\\ud800\"",
					   "\"\\ud800x\"",
					   "\"\\ud800\\u0041\"",
					   "\"\\udc00\"",
					   "1e309",
					   "1.7976931348623158e308",
					   "2e308",
					   "1e99999999999",
					   "'a'",
					   "NaN",
					   "Infinity",
					   "\xef\xbb\xbf[]",
					   "[1]]",
					   "{\"a\":1 \"b\":2}",
					   "[1 2]",
					   "\"\\u00g0\"" };

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!pfw_json_valid(good[i], strlen(good[i])))
			fail_msg("refused: %s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (pfw_json_valid(bad[i], strlen(bad[i])))
			fail_msg("taken: %s", bad[i]);
	assert_false(pfw_json_valid("\"a\0\"", 4));
}

static void test_depth(void **state)
{
	char text[512];

	(void)state;
	for (int depth = 1; depth < 200; depth++) {
		memset(text, '[', (size_t)depth);
		memset(text + depth, ']', (size_t)depth);
		assert_true(pfw_json_valid(text, 2 * (size_t)depth) == (depth <= 64));
	}
	for (int depth = 1; depth <= 64; depth++) { /* the kinds are remembered at every depth */
		for (int i = 0; i < depth; i++)
			memcpy(text + 5 * i, i % 3 ? "    [" : "{\"k\":", 5);
		text[5 * depth] = '1';
		for (int i = 0; i < depth; i++)
			text[5 * depth + 1 + i] = (depth - 1 - i) % 3 ? ']' : '}';
		assert_true(pfw_json_valid(text, 6 * (size_t)depth + 1));
		text[5 * depth + 1] ^= ']' ^ '}';
		assert_false(pfw_json_valid(text, 6 * (size_t)depth + 1));
	}
}

/* ---- names of numbers ---- */

static void test_errno_names(void **state)
{
	(void)state;
	for (int error = -5; error < 200; error++) {
		const char *name = pfw_errno_name(error), *libc = strerrorname_np(error);

		if (error <= 0 || !libc) {
			assert_null(name);
			continue;
		}
		/* Two numbers have two names each. */
		if (error != EAGAIN && error != EOPNOTSUPP)
			assert_string_equal(name, libc);
	}
	assert_string_equal(pfw_errno_name(EAGAIN), "EAGAIN");
	assert_string_equal(pfw_errno_name(EOPNOTSUPP), "EOPNOTSUPP");
	assert_null(pfw_errno_name(INT32_MAX));
}

static void test_kind_names(void **state)
{
	(void)state;
	assert_string_equal(pfw_kind_name(0), "cpu_op");
	assert_string_equal(pfw_kind_name(1), "kernel");
	assert_string_equal(pfw_kind_name(10), "memory");
	assert_string_equal(pfw_kind_name(11), "python_function");
	assert_null(pfw_kind_name(12));
	assert_null(pfw_kind_name(UINT64_MAX));
}

/* ---- the tracer's own lines ---- */

static void test_own_lines(void **state)
{
	char *out;

	(void)state;
	out = pfw_json_begin(&world.json, world.line, "lost", "M", 55, 1795230878627639123);
	out = pfw_json_key_str(out, "reason", "fu\"ll", 5);
	out = pfw_json_key_u64(out, "count", UINT64_MAX);
	out = pfw_json_key_i64(out, "rank", -1);
	out = pfw_json_key_us(out, "first_ts", 1795230878627639001);
	*pfw_json_end(&world.json, out) = '\0';
	assert_string_equal(
		world.line,
		"{\"id\":0,\"name\":\"lost\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":55,"
		"\"ts\":1795230878627639.123,\"ph\":\"M\",\"args\":{\"reason\":\"fu\\\"ll\","
		"\"count\":18446744073709551615,\"rank\":-1,"
		"\"first_ts\":1795230878627639.001}}\n");
	assert_int_equal(world.json.events, 0);
	assert_int_equal(world.json.lines, 1);
	out = pfw_json_begin(&world.json, world.line, "segment", "i", 55, 1795230878627639999);
	*pfw_json_end(&world.json, out) = '\0';
	assert_non_null(strstr(world.line, "{\"id\":1,\"name\":\"segment\""));
	assert_non_null(strstr(world.line, "\"ph\":\"i\",\"args\":{}}\n"));
	assert_int_equal(world.json.events, 1);
	assert_true(world.json.least_ns == 1795230878627639123u);
	assert_true(world.json.greatest_ns == 1795230878627639999u);
	pfw_json_window(&world.json);
	assert_int_equal(world.json.lines, 0);
	assert_true(world.json.least_ns == UINT64_MAX);
}

/* Records of any bytes at all, with any tail: a line that can be read, or none. */
static void test_any_bytes(void **state)
{
	(void)state;
	for (int i = 0; i < 30000; i++) {
		struct pfw_record record;
		char tail[512];
		size_t bytes = any() % sizeof(tail);

		for (size_t k = 0; k < sizeof(record); k++)
			((unsigned char *)&record)[k] = (unsigned char)(any() % 3 ? 0 : any());
		record.template %= WORLD_TEMPLATES;
		for (size_t k = 0; k < bytes; k++)
			tail[k] = (char)(any() % 3 ? 0 : any());
		if (encode_tail(&record, tail, bytes) && world.line[0])
			assert_true(pfw_json_valid(world.line, strcspn(world.line, "\n")));
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_pread_line),
		TEST(test_failed_call),
		TEST(test_settings),
		TEST(test_times),
		TEST(test_random_times),
		TEST(test_ticks),
		TEST(test_repeating_values),
		TEST(test_ids),
		TEST(test_names),
		TEST(test_long_names),
		TEST(test_stale_names),
		TEST(test_string_text),
		TEST(test_every_field),
		TEST(test_long_values),
		TEST(test_templates_that_say_nothing),
		TEST(test_api_span),
		TEST(test_api_bad_blobs),
		TEST(test_api_inline),
		TEST(test_instants_and_counters),
		TEST(test_pp),
		TEST(test_lanes),
		TEST(test_many_lanes),
		TEST(test_args_with_names),
		TEST(test_nothing_is_left_out),
		TEST(test_no_lane_without_device),
		TEST(test_longest_lines),
		TEST(test_too_long),
		TEST(test_strings),
		TEST(test_bad_utf8),
		TEST(test_base64),
		TEST(test_integers),
		TEST(test_doubles),
		TEST(test_valid),
		TEST(test_depth),
		TEST(test_errno_names),
		TEST(test_kind_names),
		TEST(test_own_lines),
		TEST(test_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	fputs("test_json: built without jansson, which reads the lines back: install "
	      "libjansson-dev\n",
	      stderr);
	return 1;
}

#endif
