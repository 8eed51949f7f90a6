/* query_live.c - what the traced processes have not written yet, behind the lines of their files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query.h"
#include "store/live.h"

#define CHUNK_BYTES (1u << 20)

/* Leave out what is behind `end`, a border of lines and of members: it is being written. */
static void cut(struct pfw_blocks *blocks, uint64_t end)
{
	while (blocks->count && blocks->block[blocks->count - 1].at >= end)
		blocks->count--;
	if (blocks->count) {
		struct pfw_block *last = &blocks->block[blocks->count - 1];

		last->bytes = last->bytes < end - last->at ? last->bytes : end - last->at;
	}
	blocks->file_bytes = end;
}

int query_live_open(struct query *query)
{
	/* The first line names the spool: it need not be looked for among all that there are. */
	static const char *const nowhere[] = { NULL };

	query->live = calloc(query->traces.count + 1, sizeof(struct pfw_live *));
	if (!query->live)
		return -ENOMEM;
	for (size_t i = 0; i < query->traces.count; i++) {
		struct pfw_trace_file *file = &query->traces.file[i];
		char why[PFW_LIVE_WHY_BYTES];

		if (!file->head.ours || file->blocks.layout == PFW_LAYOUT_STREAM)
			continue;
		if (pfw_live_open(&query->live[i], file->path, nowhere, why) == 0) {
			cut(&file->blocks, pfw_live_offset(query->live[i]));
			continue;
		}
		query->live[i] = NULL;
		if (!*why)
			continue;
		cli_error(query->command->name,
			  "%s: what its process has not written is missing: %s",
			  cli_name(file->path), why);
		if (query->status == CLI_OK)
			query->status = CLI_PROBLEMS;
	}
	return 0;
}

/* Take the whole lines of the text, and leave the rest at its begin. */
static int take_lines(struct query *query, size_t file, struct pfw_text *text)
{
	const char *last = text->bytes ? memrchr(text->data, '\n', text->bytes) : NULL;
	size_t whole = last ? (size_t)(last + 1 - text->data) : 0;
	int error = whole ? query_take_text(query, file, text->data, whole) : 0;

	text->bytes -= whole;
	if (whole)
		memmove(text->data, text->data + whole, text->bytes);
	return error;
}

static int read_one(struct query *query, size_t file, struct pfw_text *text)
{
	ssize_t got = 1;
	int error = 0;

	text->bytes = 0;
	while (!error && got > 0 && !*query->stop) {
		if (pfw_text_room(text, text->bytes + CHUNK_BYTES))
			return -ENOMEM;
		got = pfw_live_read(query->live[file], text->data + text->bytes, CHUNK_BYTES);
		if (got > 0) {
			text->bytes += (size_t)got;
			error = take_lines(query, file, text);
		}
	}
	return error;
}

int query_live_read(struct query *query)
{
	struct pfw_text text = { 0 };
	int error = 0;

	for (size_t i = 0; i < query->traces.count && !error; i++) {
		if (query->live && query->live[i])
			error = read_one(query, i, &text);
	}
	pfw_text_free(&text);
	return error;
}

void query_live_close(struct query *query)
{
	for (size_t i = 0; query->live && i < query->traces.count; i++) {
		if (query->live[i])
			pfw_live_close(query->live[i]);
	}
	free(query->live);
	query->live = NULL;
}
