/* tools/report/pack.c - rows of a page: an array of values each, after an object with their keys. */
#include "report/pack.h"

#include <string.h>

#include "store/json/reader.h"

/* The key and the value of the next member, as written; false after the last one. */
static bool next(struct pfw_reader *reader, struct pfw_slice *key, struct pfw_slice *value)
{
	if (!pfw_reader_take(reader, '{') && !pfw_reader_take(reader, ','))
		return false;
	if (!pfw_reader_key(reader, key))
		return false;
	value->at = reader->at;
	if (!pfw_reader_skip(reader))
		return false;
	value->bytes = (size_t)(reader->at - value->at);
	return true;
}

static bool same_keys(struct pfw_reader row, struct pfw_reader last)
{
	struct pfw_slice key, other, value;

	while (next(&row, &key, &value)) {
		if (!next(&last, &other, &value) || key.bytes != other.bytes ||
		    memcmp(key.at, other.at, key.bytes) != 0)
			return false;
	}
	return !next(&last, &other, &value);
}

void report_pack_row(struct report_pack *pack, const char *row, size_t bytes)
{
	const struct pfw_reader begin = { .at = row, .end = row + bytes };
	struct pfw_reader reader = begin;
	struct pfw_slice key, value;
	const char *between = "";

	if (!pack->last.at || !same_keys(begin, pack->last)) {
		fprintf(pack->out, "%s\n{\"keys\":[", pack->rows ? "," : "");
		for (; next(&reader, &key, &value); between = ",")
			fprintf(pack->out, "%s\"%.*s\"", between, (int)key.bytes, key.at);
		fputs("]}", pack->out);
		pack->last = reader = begin;
		pack->rows = true;
	}
	fputs(",\n", pack->out);
	for (between = "["; next(&reader, &key, &value); between = ",")
		fprintf(pack->out, "%s%.*s", between, (int)value.bytes, value.at);
	fputs("]", pack->out);
}
