/* fnames.c - the names of files in DFTracer's traces; see fnames.h. */
#include "fnames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arena.h"
#include "hash.h"
#include "pass.h"

/* A hash and its name, as they stand in the trace. */
struct pair {
	const char *hash;
	struct pfw_slice name;
	size_t hash_bytes;
};

struct pfw_fnames {
	struct pair *slot; /* open addressing; hash NULL: free */
	size_t slots, count, bytes;
	uint64_t seed;
	struct pfw_arena arena;
};

/* ---- the table ---- */

static struct pair *find(const struct pfw_fnames *fnames, const char *hash, size_t bytes)
{
	size_t i = pfw_hash_text(fnames->seed, hash, bytes) & (fnames->slots - 1);

	while (fnames->slot[i].hash && (fnames->slot[i].hash_bytes != bytes ||
					memcmp(fnames->slot[i].hash, hash, bytes) != 0))
		i = (i + 1) & (fnames->slots - 1);
	return &fnames->slot[i];
}

static int grow(struct pfw_fnames *fnames)
{
	struct pfw_fnames bigger = *fnames;

	if (2 * fnames->count < fnames->slots)
		return 0;
	bigger.slots = fnames->slots ? 2 * fnames->slots : 1024;
	bigger.slot = calloc(bigger.slots, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (size_t i = 0; i < fnames->slots; i++) {
		const struct pair *old = &fnames->slot[i];

		if (old->hash)
			*find(&bigger, old->hash, old->hash_bytes) = *old;
	}
	free(fnames->slot);
	*fnames = bigger;
	return 0;
}

static int add(struct pfw_fnames *fnames, const struct pair *pair)
{
	size_t bytes = pair->hash_bytes + pair->name.bytes + 2;
	struct pair *slot;
	char *hash, *name;

	if (fnames->count == PFW_FNAMES_MAX || fnames->bytes + bytes > PFW_FNAMES_BYTES)
		return 0;
	if (grow(fnames))
		return -ENOMEM;
	slot = find(fnames, pair->hash, pair->hash_bytes);
	if (slot->hash)
		return 0;
	hash = pfw_arena_copy(&fnames->arena, pair->hash, pair->hash_bytes);
	name = hash ? pfw_arena_copy(&fnames->arena, pair->name.at, pair->name.bytes) : NULL;
	if (!name)
		return -ENOMEM;
	*slot = *pair;
	slot->hash = hash;
	slot->name.at = name;
	fnames->bytes += bytes;
	fnames->count++;
	return 0;
}

/* ---- reading ---- */

/* Whether a line tells a name. */
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

/* The lines of a block that may tell a name are few: look for the text, not at each line. */
static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	const char *at = block->text, *end = at + block->bytes, *hit;
	struct pfw_fnames *found = calloc(1, sizeof(*found));
	int error = found ? 0 : -ENOMEM;
	struct pair pair;

	(void)user;
	(void)worker;
	block->result = found;
	while (!error && (hit = memmem(at, (size_t)(end - at), "\"FH\"", 4))) {
		const char *newline = memchr(hit, '\n', (size_t)(end - hit));
		const char *line = memrchr(at, '\n', (size_t)(hit - at));

		line = line ? line + 1 : at;
		at = newline ? newline + 1 : end;
		if (take_pair(line, (size_t)((newline ? newline : end) - line), &pair))
			error = add(found, &pair);
	}
	return error;
}

static void drop(void *user, void *result)
{
	(void)user;
	pfw_fnames_free(result);
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct pfw_fnames *fnames = user, *found = block->result;
	int error = 0;

	for (size_t i = 0; i < found->slots && !error; i++) {
		if (found->slot[i].hash)
			error = add(fnames, &found->slot[i]);
	}
	pfw_fnames_free(found);
	block->result = NULL;
	return error;
}

/* The files among the traces that have to be looked at. */
static int pick(struct pfw_traces *some, const struct pfw_traces *traces)
{
	*some = (struct pfw_traces){ .file = calloc(traces->count + 1, sizeof(*some->file)) };
	if (!some->file)
		return -ENOMEM;
	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_trace_file *file = &traces->file[i];
		struct stat st;

		if (!file->head.ours && strcmp(file->path, "-") != 0 &&
		    stat(file->path, &st) == 0 && S_ISREG(st.st_mode))
			some->file[some->count++] = *file;
	}
	return 0;
}

int pfw_fnames_read(struct pfw_fnames **out, const struct pfw_traces *traces,
		    const struct pfw_extent_options *options)
{
	struct pfw_fnames *fnames = calloc(1, sizeof(*fnames));
	struct pfw_traces some;
	struct pfw_pass pass = {
		.traces = &some,
		.jobs = options->jobs,
		.user = fnames,
		.work = work,
		.done = done,
		.drop = drop,
		.stop = options->stop,
	};
	int error = fnames ? pick(&some, traces) : -ENOMEM;

	*out = NULL;
	if (!error) {
		fnames->seed = pfw_hash_seed();
		if (some.count)
			error = pfw_pass_run(&pass);
		free(some.file); /* what is in them is of `traces` */
	}
	if (!error || error == -EIO) {
		error = 0;
		if (fnames->count) {
			*out = fnames;
			return 0;
		}
	}
	pfw_fnames_free(fnames);
	return error;
}

void pfw_fnames_free(struct pfw_fnames *fnames)
{
	if (!fnames)
		return;
	pfw_arena_release(&fnames->arena);
	free(fnames->slot);
	free(fnames);
}

bool pfw_fnames_find(const struct pfw_fnames *fnames, const struct pfw_entry *entry,
		     struct pfw_value *value)
{
	const struct pair *pair;

	if (pfw_entry_arg(entry, "fname", value))
		return true;
	if (!fnames || !pfw_entry_arg(entry, "fhash", value))
		return false;
	pair = find(fnames, value->text.at, value->text.bytes);
	if (!pair->hash)
		return false;
	*value = (struct pfw_value){ .type = PFW_VALUE_STRING, .text = pair->name };
	return true;
}
