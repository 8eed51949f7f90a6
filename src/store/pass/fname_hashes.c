/* store/pass/fname_hashes.c - the names of files in DFTracer's traces; see fname_hashes.h. */
#include "store/pass/fname_hashes.h"

#include <errno.h>
#include <stdlib.h>

#include "store/kit/grow.h"
#include "store/kit/text_ids.h"
#include "store/pass/pass.h"

/* A hash and its name, as they are written. */
struct pair {
	const char *hash;
	struct pfw_slice name;
	size_t hash_bytes;
};

struct pfw_fname_hashes {
	struct pfw_text_ids hashes;
	struct pfw_slice *name; /* by id of the hash; in the ids' arena */
	size_t room, bytes;
};

/* ---- the table ---- */

static int add(struct pfw_fname_hashes *fnames, const struct pair *pair)
{
	size_t bytes = pair->hash_bytes + pair->name.bytes + 2;
	uint32_t count = fnames->hashes.count;
	struct pfw_slice name = pair->name;
	int64_t number;

	if (count == PFW_FNAMES_MAX || fnames->bytes + bytes > PFW_FNAMES_BYTES)
		return 0;
	if (PFW_ROOM(fnames->name, count, fnames->room))
		return -ENOMEM;
	number = pfw_text_ids_of(&fnames->hashes, 0, pair->hash, pair->hash_bytes);
	if (number != count)
		return number < 0 ? (int)number : 0;
	name.at = pfw_arena_copy(&fnames->hashes.texts, name.at, name.bytes);
	if (!name.at)
		return -ENOMEM;
	fnames->name[number] = name;
	fnames->bytes += bytes;
	return 0;
}

/* ---- reading ---- */

/* Parse an `FH` line; false: it is none. */
static bool take_pair(const char *line, size_t bytes, struct pair *pair)
{
	struct pfw_value hash, name;
	struct pfw_entry entry;

	pfw_entry_parse(&entry, line, bytes);
	if (entry.kind != PFW_ENTRY_EVENT || entry.ph != 'M' || !pfw_slice_is(&entry.name, "FH") ||
	    !pfw_entry_arg(&entry, "value", &hash) || !pfw_entry_arg(&entry, "name", &name) ||
	    name.type != PFW_VALUE_STRING || !hash.text.bytes)
		return false;
	*pair = (struct pair){ hash.text.at, name.text, hash.text.bytes };
	return true;
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	const char *at = block->text, *line;
	struct pair pair;
	size_t bytes;
	int error = 0;

	(void)user;
	(void)worker;
	while (!error && (line = pfw_pass_search(block, "\"FH\"", &at, &bytes))) {
		if (take_pair(line, bytes, &pair))
			error = add(block->result, &pair);
	}
	return error;
}

static void drop(void *result)
{
	pfw_fname_hashes_free(result);
}

static int done(void *user, struct pfw_pass_block *block)
{
	const struct pfw_fname_hashes *found = block->result;
	struct pfw_fname_hashes *fnames = user;
	int error = 0;

	for (uint32_t i = 0; i < found->hashes.count && !error; i++) {
		const struct pfw_text_id *hash = &found->hashes.name[i];

		error = add(fnames, &(struct pair){ hash->text, found->name[i], hash->bytes });
	}
	return error;
}

/* The files among the traces that may have such lines. */
static int pick(struct pfw_traces *some, const struct pfw_traces *traces)
{
	*some = (struct pfw_traces){ .file = calloc(traces->count + 1, sizeof(*some->file)) };
	if (!some->file)
		return -ENOMEM;
	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_trace_file *file = &traces->file[i];

		if (!file->head.ours && !file->once)
			some->file[some->count++] = *file;
	}
	return 0;
}

int pfw_fname_hashes_read(struct pfw_fname_hashes **out, const struct pfw_traces *traces,
			  const struct pfw_extent_options *options)
{
	struct pfw_fname_hashes *fnames = calloc(1, sizeof(*fnames));
	struct pfw_traces some;
	struct pfw_pass pass = {
		.traces = &some,
		.jobs = options->jobs,
		.user = fnames,
		.result_bytes = sizeof(*fnames),
		.work = work,
		.done = done,
		.drop = drop,
		.stop = options->stop,
	};
	int error = fnames ? pick(&some, traces) : -ENOMEM;

	*out = NULL;
	if (!error) {
		if (some.count)
			error = pfw_pass_run(&pass);
		free(some.file); /* `traces` owns the contents */
	}
	if (!error || error == -EIO) {
		error = 0;
		if (fnames->hashes.count) {
			*out = fnames;
			return 0;
		}
	}
	pfw_fname_hashes_free(fnames);
	return error;
}

void pfw_fname_hashes_free(struct pfw_fname_hashes *fnames)
{
	if (!fnames)
		return;
	pfw_text_ids_release(&fnames->hashes);
	free(fnames->name);
	free(fnames);
}

bool pfw_fname_hashes_find(const struct pfw_fname_hashes *fnames, const struct pfw_entry *entry,
			   struct pfw_value *value)
{
	int64_t number;

	if (pfw_entry_arg(entry, "fname", value))
		return true;
	if (!fnames || !pfw_entry_arg(entry, "fhash", value))
		return false;
	number = pfw_text_ids_find(&fnames->hashes, 0, value->text.at, value->text.bytes);
	if (number < 0)
		return false;
	*value = (struct pfw_value){ .type = PFW_VALUE_STRING, .text = fnames->name[number] };
	return true;
}
