/* fuzz_import.c - any bytes as a chrome trace: they are cut into values in bounded memory, to an end;
 * and where they are JSON by jansson's lights, which shares nothing with us, into the same values.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef PFW_HAVE_JANSSON
#include <jansson.h>
#endif

#include "import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct import_reader *open_bytes(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct import_reader *reader;
	char path[64];

	if (fd < 0)
		fd = memfd_create("trace", MFD_CLOEXEC);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert(import_reader_open(&reader, path) == 0);
	return reader;
}

/* Each value is within the file, and what is broken stays so. */
static void check_end(const uint8_t *data, size_t size)
{
	struct import_reader *reader = open_bytes(data, size);
	struct import_value value;
	enum import_item item;
	bool plain = size < 2 || data[0] != 0x1f || data[1] != 0x8b;
	size_t items = 0;

	while ((item = import_reader_next(reader, &value)) == IMPORT_MEMBER ||
	       item == IMPORT_EVENT) {
		assert(value.text.bytes);
		/* Of a member, the place is its key's. */
		if (plain)
			assert(++items <= size && value.at < size &&
			       (char)data[value.at] ==
				       (item == IMPORT_EVENT ? value.text.at[0] : '"'));
	}
	assert((item == IMPORT_BROKEN) == (value.why != NULL));
	assert(import_reader_next(reader, &value) == item);
	import_reader_close(reader);
}

#ifdef PFW_HAVE_JANSSON
static void check_same(const struct pfw_slice *text, const json_t *wanted)
{
	json_t *found = json_loadb(text->at, text->bytes, JSON_DECODE_ANY, NULL);

	assert(found && json_equal(found, (json_t *)(uintptr_t)wanted));
	json_decref(found);
}

/* The member of that key, which the reader gives as it is written. */
static const json_t *member_of(const json_t *all, const struct pfw_slice *key)
{
	/* With the quotes about it. */
	json_t *text = json_loadb(key->at - 1, key->bytes + 2, JSON_DECODE_ANY, NULL);
	const json_t *member = json_object_get(all, json_string_value(text));

	json_decref(text);
	return member;
}

static void check_json(const uint8_t *data, size_t size)
{
	json_t *all = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	json_t *events = json_is_array(all) ? all : json_object_get(all, "traceEvents");
	struct import_reader *reader;
	struct import_value value;
	enum import_item item;
	size_t event = 0, member = 0;

	/* Jansson passes over a NUL outside of texts. */
	if (!all || memchr(data, 0, size) || memmem(data, size, "\\u", 2)) {
		json_decref(all);
		return;
	}
	reader = open_bytes(data, size);
	while ((item = import_reader_next(reader, &value)) != IMPORT_END) {
		assert(item != IMPORT_BROKEN);
		if (item == IMPORT_EVENT) {
			check_same(&value.text, json_array_get(events, event++));
			continue;
		}
		member++;
		check_same(&value.text, member_of(all, &value.key));
	}
	assert(event == json_array_size(events));
	assert(member == json_object_size(all) - (json_is_object(all) && json_is_array(events)));
	import_reader_close(reader);
	json_decref(all);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_end(data, size);
#ifdef PFW_HAVE_JANSSON
	check_json(data, size);
#endif
	return 0;
}
