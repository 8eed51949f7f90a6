/* store/manifest/keep.c - takes over what an older manifest says of files that stay. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/manifest/internal.h"

#define NAME_ROOM 256u

static int64_t find_i64(const struct pfw_slice *object, const char *key, int64_t none)
{
	struct pfw_value value;
	int64_t number;

	return pfw_slice_find(object, key, &value) && pfw_value_i64(&value, &number) ? number
										     : none;
}

/* A time in µs as ns. */
static int64_t find_us(const struct pfw_slice *object, const char *key, int64_t none)
{
	struct pfw_value value;
	int64_t ns;

	return pfw_slice_find(object, key, &value) && pfw_value_ns(&value, &ns) ? ns : none;
}

/* A file's figures, as far as the manifest has them. */
static struct pfw_pack_sum find_sum(const struct pfw_slice *object)
{
	struct pfw_pack_sum sum = { .least_ns = find_us(object, "first_ts", INT64_MAX),
				    .greatest_ns = find_us(object, "last_end", INT64_MIN) };
	uint64_t events = 0;
	char hash[32] = "";

	pfw_manifest_text_u64(object, "bytes", &sum.bytes);
	pfw_manifest_text_u64(object, "members", &sum.members);
	pfw_manifest_text_u64(object, "lines", &sum.lines);
	pfw_manifest_text_u64(object, "events", &events);
	sum.metadata = events < sum.lines ? sum.lines - events : 0;
	pfw_manifest_text_string(object, "checksum", hash, sizeof(hash));
	sum.checksum = strtoull(hash, NULL, 16);
	return sum;
}

/* A file's losses by reason. */
static int take_losses(struct pfw_manifest_file *file, const struct pfw_slice *object)
{
	struct pfw_value losses, count;
	struct pfw_walk walk;
	struct pfw_slice reason;
	struct manifest_fact *fact;

	if (!pfw_slice_find(object, "losses", &losses) || losses.type != PFW_VALUE_OBJECT)
		return 0;
	pfw_walk_init(&walk, &losses.text);
	while (pfw_walk_next(&walk, &reason, &count)) {
		fact = pfw_manifest_add_fact(file);
		if (!fact)
			return -ENOMEM;
		fact->reason = strndup(reason.at, reason.bytes);
		if (!fact->reason)
			return -ENOMEM;
		pfw_value_u64(&count, &fact->count);
	}
	return 0;
}

static int take_file(struct pfw_manifest *manifest, const struct pfw_slice *object,
		     bool (*keep)(void *user, const char *name, uint64_t bytes), void *user)
{
	const struct pfw_pack_sum sum = find_sum(object);
	struct pfw_manifest_file *file;
	char name[NAME_ROOM];

	if (!pfw_manifest_text_string(object, "file", name, sizeof(name)) ||
	    pfw_manifest_text_leads_out(name) || !keep(user, name, sum.bytes))
		return 0;
	file = pfw_manifest_add(manifest, name, find_i64(object, "rank", -1));
	if (!file)
		return -ENOMEM;
	file->sum = sum;
	return take_losses(file, object);
}

/* The file of a process among the kept ones, which begin at `first`. */
static struct pfw_manifest_file *find_file(const struct pfw_manifest *manifest, size_t first,
					   const char *name)
{
	for (size_t i = first; i < manifest->files; i++) {
		if (strcmp(manifest->file[i]->name, name) == 0)
			return manifest->file[i];
	}
	return NULL;
}

/* A copy of a value as written; NULL: no such value, or no memory. */
static char *copy_text(const struct pfw_slice *object, const char *key, enum pfw_value_type type)
{
	struct pfw_value value;

	if (!pfw_slice_find(object, key, &value) || value.type != type)
		return NULL;
	return strndup(value.text.at, value.text.bytes);
}

static int take_process(struct pfw_manifest_file *file, const struct pfw_slice *object)
{
	struct manifest_process *process = pfw_manifest_add_process(file);
	struct pfw_slice args;

	if (!process)
		return -ENOMEM;
	pfw_manifest_text_u64(object, "pid", &process->pid);
	process->ts_ns = find_us(object, "start", 0);
	process->rank = find_i64(object, "rank", -1);
	process->reason = copy_text(object, "reason", PFW_VALUE_STRING);
	process->ended = pfw_manifest_text_u64(object, "events", &process->events);
	/* No `end` of a line may replace what is kept. */
	process->end_id = UINT64_MAX;
	process->args = copy_text(object, "args", PFW_VALUE_OBJECT);
	if (!process->args && !(process->args = strdup("{}")))
		return -ENOMEM;
	args = (struct pfw_slice){ .at = process->args, .bytes = strlen(process->args) };
	process->host = copy_text(&args, "host", PFW_VALUE_STRING);
	return 0;
}

static int take_all(struct pfw_manifest *manifest, const struct pfw_manifest_text *text,
		    bool (*keep)(void *user, const char *name, uint64_t bytes), void *user)
{
	size_t first = manifest->files;
	struct pfw_walk list;
	struct pfw_value item;
	char name[NAME_ROOM];
	int error = 0;

	if (!pfw_manifest_text_list(text, "files", &list))
		return 0;
	while (!error && pfw_elements_next(&list, &item)) {
		if (item.type == PFW_VALUE_OBJECT)
			error = take_file(manifest, &item.text, keep, user);
	}
	if (error || !pfw_manifest_text_list(text, "processes", &list))
		return error;
	while (!error && pfw_elements_next(&list, &item)) {
		struct pfw_manifest_file *file = NULL;

		if (item.type == PFW_VALUE_OBJECT &&
		    pfw_manifest_text_string(&item.text, "file", name, sizeof(name)))
			file = find_file(manifest, first, name);
		error = file ? take_process(file, &item.text) : 0;
	}
	return error;
}

int pfw_manifest_keep(struct pfw_manifest *manifest, const char *path,
		      bool (*keep)(void *user, const char *name, uint64_t bytes), void *user)
{
	struct pfw_manifest_text text;
	struct pfw_value run;
	char why[256];
	int error = pfw_manifest_text_read(&text, path, why, sizeof(why));

	if (error) /* there is none, or its format is unknown */
		return error == -ENOMEM ? error : 0;
	if (pfw_slice_find(&text.whole, "run", &run) && run.type == PFW_VALUE_STRING &&
	    pfw_slice_is(&run.text, manifest->run))
		error = take_all(manifest, &text, keep, user);
	pfw_manifest_text_free(&text);
	return error;
}
