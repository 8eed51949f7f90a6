/* tools/table/recent.c - finds the row of a name without its key; see recent.h. */
#include "table/recent.h"

#include <string.h>

#include "store/kit/hash.h"

static uint32_t kind_of(const struct pfw_table_line *line)
{
	return (uint32_t)line->section << 16 | (uint32_t)(line->device & 255) << 8 |
	       line->annotation;
}

bool table_recent_is(const struct table_recent *recent, const struct pfw_table_line *line,
		     size_t file)
{
	return recent->row && recent->name_bytes == line->name.bytes &&
	       recent->cat_bytes == line->cat.bytes && recent->file == file &&
	       recent->kind == kind_of(line) &&
	       pfw_hash_same(recent->text, line->cat.at, line->cat.bytes) &&
	       pfw_hash_same(recent->text + recent->cat_bytes, line->name.at, line->name.bytes);
}

struct table_recent *table_recent_of(struct table_recent *recent, const struct pfw_table_line *line)
{
	const char *name = line->name.at;
	size_t bytes = line->name.bytes;

	if (!bytes || !line->cat.bytes || bytes + line->cat.bytes > sizeof(recent->text))
		return NULL;
	return &recent[(bytes * 5 + (uint8_t)name[0] + (uint8_t)name[bytes / 2] * 3u +
			(uint8_t)name[bytes - 1] * 7u) %
		       TABLE_RECENT];
}

void table_recent_note(struct table_recent *recent, const struct pfw_table_line *line, size_t file,
		       uint32_t row)
{
	*recent = (struct table_recent){ .row = row + 1,
					 .kind = kind_of(line),
					 .file = file,
					 .cat_bytes = (uint8_t)line->cat.bytes,
					 .name_bytes = (uint8_t)line->name.bytes };
	memcpy(recent->text, line->cat.at, line->cat.bytes);
	memcpy(recent->text + line->cat.bytes, line->name.at, line->name.bytes);
}
