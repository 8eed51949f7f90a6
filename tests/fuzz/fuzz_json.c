/* fuzz_json.c - any bytes as a record with its tail: a line that an independent reader takes, or none.
 *
 * The input: one byte of settings, one of the template, two of a string's length, the string, then
 * the record and its tail.  The whole input is also a string, a text that may be JSON, and a double.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../json_world.h"
#include "common/encode/text.h"

#if PFW_HAVE_JANSSON
#include <jansson.h>

/* What jansson thinks of a text: 1 taken, 0 refused, -1 cannot say (a NUL in a key). */
static int judge(const char *text, size_t bytes, json_t **parsed)
{
	json_error_t error;

	*parsed = json_loadb(text, bytes,
			     JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
	if (*parsed)
		return 1;
	return json_error_code(&error) == json_error_null_byte_in_key ? -1 : 0;
}

static void check_line(const char *line, size_t bytes)
{
	json_t *parsed;

	if (judge(line, bytes, &parsed) == 1) {
		assert(json_is_object(json_object_get(parsed, "args")));
		assert(json_is_string(json_object_get(parsed, "name")));
		assert(json_is_string(json_object_get(parsed, "cat")));
		assert(json_is_string(json_object_get(parsed, "ph")));
		assert(json_is_number(json_object_get(parsed, "ts")));
	} else {
		assert(judge(line, bytes, &parsed) == -1);
	}
	json_decref(parsed);
}

/* A string comes back as it was where it was UTF-8, and says so. */
static void check_string(const char *text, size_t bytes)
{
	char *out = malloc(6 * bytes + 2 + PFW_JSON_SLACK), *end;
	json_t *same = json_stringn(text, bytes), *parsed;
	bool valid;

	assert(out);
	end = pfw_json_string(out, text, bytes, &valid);
	assert(end <= out + 6 * bytes + 2);
	assert(judge(out, (size_t)(end - out), &parsed) == 1);
	assert(valid == (same != NULL));
	assert(!same || json_equal(same, parsed));
	json_decref(same);
	json_decref(parsed);
	free(out);
}

/* What is taken for JSON is JSON to others; and the other way round, but for our limits. */
static void check_valid(const char *text, size_t bytes)
{
	json_t *parsed;
	int judged = judge(text, bytes, &parsed);
	/* Great numbers, depth, and a NUL, at which jansson takes the text to end. */
	bool limited = memchr(text, 'e', bytes) || memchr(text, 'E', bytes) || bytes > 60 ||
		       memchr(text, '\0', bytes);

	if (pfw_json_valid(text, bytes))
		assert(judged != 0);
	else if (!limited)
		assert(judged != 1);
	json_decref(parsed);
}

#else

static void check_line(const char *line, size_t bytes)
{
	assert(pfw_json_valid(line, bytes));
}

static void check_string(const char *text, size_t bytes)
{
	char *out = malloc(6 * bytes + 2 + PFW_JSON_SLACK), *end;

	assert(out);
	end = pfw_json_string(out, text, bytes, NULL);
	assert(end <= out + 6 * bytes + 2 && pfw_json_valid(out, (size_t)(end - out)));
	free(out);
}

static void check_valid(const char *text, size_t bytes)
{
	(void)pfw_json_valid(text, bytes);
}

#endif

static void check_double(const char *bytes)
{
	char text[64], *end;
	double value, back;
	uint64_t bits;

	memcpy(&bits, bytes, 8);
	memcpy(&value, bytes, 8);
	end = pfw_append_f64(text, bits);
	assert(end <= text + 26);
	*end = '\0';
	if (!strcmp(text, "null"))
		return;
	assert(pfw_json_valid(text, (size_t)(end - text)));
	back = strtod(text, &end);
	assert(!*end && !memcmp(&back, &value, 8));
}

/* The lines of one record: each by itself is JSON, and the text ends with the last. */
static void check_record(struct world *world, const struct pfw_record *record, const char *tail,
			 size_t tail_bytes)
{
	char *exact = malloc(tail_bytes ? tail_bytes : 1), *at = world->line, *end;
	int lines;

	assert(exact);
	memcpy(exact, tail, tail_bytes);
	end = pfw_json_record(&world->json, at, record, exact, tail_bytes, WORLD_TID);
	free(exact);
	if (!end)
		return;
	assert(end <= world->line + PFW_JSON_LINE_MAX);
	for (lines = 0; at < end; lines++) {
		char *stop = memchr(at, '\n', (size_t)(end - at));

		assert(stop);
		check_line(at, (size_t)(stop - at));
		at = stop + 1;
	}
	/* What names a lane that has no line yet writes nothing. */
	assert(lines ? lines <= 2 : record->flags & PFW_RECORD_LANE_NAME);
}

static void check_world(const uint8_t *data, size_t size)
{
	struct pfw_record record;
	struct world world;
	size_t bytes = (size_t)data[2] | (size_t)(data[3] & 0x3f) << 8;
	uint32_t ref;

	if (bytes > size - 4 - sizeof(record))
		bytes = size - 4 - sizeof(record);
	world_open(&world);
	world.json.whole_us = data[0] & 1;
	world.json.metadata = !(data[0] & 2);
	world.json.disable_tids = data[0] & 4;
	ref = world_string(&world, (const char *)data + 4, bytes);
	data += 4 + bytes;
	size -= 4 + bytes;
	memcpy(&record, data, sizeof(record));
	record.template = data[-(ptrdiff_t)bytes - 3] % (WORLD_TEMPLATES + 1);
	for (int i = 0; i < 2; i++) { /* again, with what is kept of names and lanes */
		check_record(&world, &record, (const char *)data + sizeof(record),
			     size - sizeof(record));
		record.file = ref;
		check_record(&world, &record, (const char *)data + sizeof(record),
			     size - sizeof(record));
		record.value[0] = ref | record.value[0] >> 32 << 32;
	}
	world_close(&world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_string((const char *)data, size);
	check_valid((const char *)data, size);
	if (size >= 8)
		check_double((const char *)data);
	if (size >= 4 + sizeof(struct pfw_record))
		check_world(data, size);
	return 0;
}
