/* entry_judge.h - whether lines are taken apart rightly: the paths of entry.h against each other, and
 * against jansson, which shares nothing with us.  What is wrong fails an assert().
 */
#pragma once

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef PFW_HAVE_JANSSON
#include <jansson.h>
#endif

#include "store/line/entry.h"

static inline void assert_same_slice(const struct pfw_slice *a, const struct pfw_slice *b)
{
	assert(a->at == b->at && a->bytes == b->bytes && a->escaped == b->escaped);
}

static inline void assert_same(const struct pfw_entry *fast, const struct pfw_entry *any)
{
	assert(any->kind == PFW_ENTRY_EVENT);
	assert(fast->has == any->has && fast->wrong == any->wrong);
	assert(fast->repeated == 0 && any->repeated == 0 && !fast->comma && !any->comma);
	assert(fast->id == any->id && fast->pid == any->pid && fast->tid == any->tid);
	assert(fast->ts_ns == any->ts_ns && fast->dur_ns == any->dur_ns);
	assert(fast->ph == any->ph && !any->integer_ph);
	assert_same_slice(&fast->name, &any->name);
	assert_same_slice(&fast->cat, &any->cat);
	assert(fast->args.at == any->args.at && fast->args.bytes == any->args.bytes);
}

/* What was kept while the line was taken apart is what a look at args finds. */
static inline void assert_same_pairs(const struct pfw_entry *entry)
{
	for (unsigned i = 0; i < entry->arg_count && !entry->args_more; i++) {
		const struct pfw_entry_pair *pair = &entry->arg[i];
		struct pfw_value kept, found;
		char key[256];

		memcpy(key, entry->args.at + pair->key, pair->key_bytes);
		key[pair->key_bytes] = '\0';
		if (pair->key_bytes > 100) /* pfw_slice_is() takes no more */
			continue;
		assert(pfw_entry_arg(entry, key, &kept));
		assert(pfw_slice_find(&entry->args, key, &found));
		assert(kept.type == found.type);
		assert_same_slice(&kept.text, &found.text);
	}
}

/* Lines with one number in `named` or `form` have in common what entry.h says. */
static inline void assert_same_numbers(const struct pfw_entry *entry)
{
	static struct {
		uint64_t named, form;
		char name[256], args[1024];
		size_t name_bytes, cat_bytes;
		struct pfw_entry first;
	} known[PFW_ENTRY_NUMBERS], *one;

	one = &known[entry->named % PFW_ENTRY_NUMBERS];
	if (entry->named && one->named == entry->named) {
		assert(one->name_bytes == entry->name.bytes && one->cat_bytes == entry->cat.bytes);
		assert(!memcmp(one->name, entry->name.at, one->name_bytes));
		assert(!memcmp(one->name + one->name_bytes, entry->cat.at, one->cat_bytes));
	} else if (entry->named && entry->name.bytes + entry->cat.bytes < sizeof(one->name)) {
		one->named = entry->named;
		one->name_bytes = entry->name.bytes;
		one->cat_bytes = entry->cat.bytes;
		memcpy(one->name, entry->name.at, entry->name.bytes);
		memcpy(one->name + entry->name.bytes, entry->cat.at, entry->cat.bytes);
	}
	one = &known[entry->form % PFW_ENTRY_NUMBERS];
	if (entry->form && one->form != entry->form && entry->args.bytes < sizeof(one->args)) {
		one->form = entry->form;
		one->first = *entry;
		memcpy(one->args, entry->args.at, entry->args.bytes);
		one->first.args.at = one->args;
		memcpy(one->first.own, entry->arg, entry->arg_count * sizeof(*entry->arg));
		one->first.arg = one->first.own;
	}
	if (!entry->form || one->form != entry->form)
		return;
	assert(entry->arg_count == one->first.arg_count && !entry->args_more);
	assert(entry->varies == one->first.varies);
	for (unsigned i = 0; i < entry->arg_count; i++) {
		struct pfw_slice key[2];
		struct pfw_value value[2];

		pfw_entry_pair(entry, i, &key[0], &value[0]);
		pfw_entry_pair(&one->first, i, &key[1], &value[1]);
		assert(key[0].bytes == key[1].bytes && !memcmp(key[0].at, key[1].at, key[0].bytes));
		assert(entry->varies >> i & 1 ||
		       (value[0].type == value[1].type &&
			value[0].text.bytes == value[1].text.bytes &&
			!memcmp(value[0].text.at, value[1].text.at, value[0].text.bytes)));
	}
}

#ifdef PFW_HAVE_JANSSON
static inline void assert_same_integer(const struct pfw_entry *entry, unsigned bit, uint64_t ours,
				       const json_t *object)
{
	json_t *theirs = json_object_get(object, pfw_entry_key_name(bit));

	assert(!theirs == !(entry->has & bit));
	if (!theirs)
		return;
	if (entry->wrong & bit)
		assert(!json_is_integer(theirs) || json_integer_value(theirs) <= 0);
	else
		assert(json_is_integer(theirs) && (uint64_t)json_integer_value(theirs) == ours);
}

static inline void assert_same_time(const struct pfw_entry *entry, unsigned bit, int64_t ours,
				    const json_t *object)
{
	json_t *theirs = json_object_get(object, pfw_entry_key_name(bit));
	double ns;

	assert(!theirs == !(entry->has & bit));
	if (!theirs)
		return;
	ns = json_number_value(theirs) * 1000;
	if (entry->wrong & bit)
		assert(!json_is_number(theirs) || fabs(ns) > 9.2e18);
	else
		assert(json_is_number(theirs) && fabs((double)ours - ns) <= 1 + fabs(ns) * 1e-14);
}

static inline void assert_same_text(const struct pfw_entry *entry, unsigned bit,
				    const struct pfw_slice *ours, const json_t *object)
{
	json_t *theirs = json_object_get(object, pfw_entry_key_name(bit));
	char *text;

	assert(!theirs == !(entry->has & bit));
	if (!theirs)
		return;
	assert(json_is_string(theirs) == !(entry->wrong & bit));
	if (!json_is_string(theirs) ||
	    strlen(json_string_value(theirs)) != json_string_length(theirs))
		return; /* a NUL inside: ours has U+FFFD there */
	text = malloc(ours->bytes + 1);
	assert(pfw_slice_decode(ours, text, ours->bytes + 1) == json_string_length(theirs));
	assert(strcmp(text, json_string_value(theirs)) == 0);
	free(text);
}

static inline void assert_same_args(const struct pfw_entry *entry, const json_t *object)
{
	json_t *theirs = json_object_get(object, "args"), *value;
	const char *key;

	if (!json_is_object(theirs))
		return;
	assert(!(entry->wrong & PFW_ENTRY_ARGS));
	json_object_foreach(theirs, key, value) {
		struct pfw_value ours;

		if (strlen(key) > 100 || strstr(key, "\xef\xbf\xbd"))
			continue;
		assert(pfw_slice_find(&entry->args, key, &ours));
		assert((ours.type == PFW_VALUE_STRING) == json_is_string(value));
		assert((ours.type == PFW_VALUE_NUMBER) == json_is_number(value));
		assert((ours.type == PFW_VALUE_OBJECT) == json_is_object(value));
		assert((ours.type == PFW_VALUE_ARRAY) == json_is_array(value));
	}
}

/* The independent judge. */
static inline void judge(const struct pfw_entry *entry, const char *line, size_t bytes)
{
	json_error_t error;
	json_t *object;

	if (entry->kind != PFW_ENTRY_EVENT && entry->kind != PFW_ENTRY_BAD)
		return;
	for (; entry->comma; bytes--) {
		if (line[bytes - 1] == ',') {
			bytes--;
			break;
		}
	}
	object = json_loadb(line, bytes, JSON_ALLOW_NUL, &error);
	if (entry->kind == PFW_ENTRY_BAD) { /* jansson lets NUL bytes stand in strings */
		assert(memchr(line, 0, bytes) || !json_is_object(object) ||
		       strstr(entry->why, "deep"));
		json_decref(object);
		return;
	}
	if (!object) { /* what jansson cannot hold, and JSON allows */
		assert(json_error_code(&error) == json_error_numeric_overflow ||
		       json_error_code(&error) == json_error_null_byte_in_key);
		return;
	}
	assert_same_integer(entry, PFW_ENTRY_ID, entry->id, object);
	assert_same_integer(entry, PFW_ENTRY_PID, entry->pid, object);
	assert_same_integer(entry, PFW_ENTRY_TID, entry->tid, object);
	assert_same_time(entry, PFW_ENTRY_TS, entry->ts_ns, object);
	assert_same_time(entry, PFW_ENTRY_DUR, entry->dur_ns, object);
	assert_same_text(entry, PFW_ENTRY_NAME, &entry->name, object);
	assert_same_text(entry, PFW_ENTRY_CAT, &entry->cat, object);
	assert_same_args(entry, object);
	json_decref(object);
}
#endif

/* The line in an allocation of its own size, so that a byte read behind it is seen. */
static inline void check_line(const uint8_t *at, size_t bytes)
{
	char *line = malloc(bytes ? bytes : 1);
	struct pfw_entry fast, any, either;

	memcpy(line, at, bytes);
	pfw_entry_parse_any(&any, line, bytes);
	if (pfw_entry_parse_fast(&fast, line, bytes)) {
		assert_same(&fast, &any);
		assert_same_pairs(&fast);
	}
	pfw_entry_parse(&either, line, bytes);
	assert(either.kind == any.kind);
	if (any.kind == PFW_ENTRY_BAD)
		assert(any.why && any.why_at <= bytes && any.has == 0);
#ifdef PFW_HAVE_JANSSON
	judge(&any, line, bytes);
#endif
	free(line);
}

/* All lines in one text with padding, as a pass reads them: each the same as alone. */
static inline void check_text(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + PFW_ENTRY_PADDING);
	const char *at = text, *end = text + size;

	memcpy(text, data, size);
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		struct pfw_entry next = { .numbered = true }, any;

		assert(pfw_entry_parse_next(&next, at, end) == stop);
		pfw_entry_parse_any(&any, at, (size_t)(stop - at));
		assert(next.kind == any.kind);
		if (next.kind == PFW_ENTRY_EVENT && next.fast) {
			assert_same(&next, &any);
			assert_same_pairs(&next);
			assert_same_numbers(&next);
		}
		at = stop + 1;
	}
	free(text);
}
