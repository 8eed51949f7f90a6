/* store/overlap/kept.c - the file of kept overlaps, which has the form of a partial; see kept.h. */
#include "store/overlap/kept.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/order.h"
#include "store/index/db.h"
#include "store/index/place.h"
#include "store/kit/grow.h"
#include "store/kit/hash.h"
#include "store/kit/varint.h"
#include "store/overlap/in_index.h"
#include "store/overlap/overlap.h"
#include "store/partial/partial.h"
#include "store/sys/open.h"

#define STEM ".pfw-overlaps"

/* What is kept of the files of a rank. */
struct kept {
	uint64_t hash;	  /* of what names the files */
	uint64_t first;	  /* of the first file's name */
	bool gone;	  /* the first file is */
	const char *path; /* of the partial */
	struct pfw_partial_unit unit;
};

/* What is written. */
struct keeping {
	uint64_t first;
	struct pfw_blob files, data;
};

struct pfw_overlaps {
	char *directory, *beside, *cached; /* the latter two: files; NULL: there is no cache */
	struct kept *kept;
	size_t count, room;
	struct keeping *keeping;
	size_t added, adding_room;
};

/* ---- the files of a rank ---- */

void pfw_overlaps_add_file(struct pfw_blob *files, const char *path, const struct pfw_index *index)
{
	const struct pfw_index_proof *proof = pfw_index_proof(index);
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!files->bytes)
		PFW_BLOB_PUT(files, pfw_overlap_kind.version);
	pfw_blob_bytes(files, name, strlen(name));
	PFW_BLOB_PUT(files, proof->trace_bytes, proof->first_bytes, proof->first_crc,
		     proof->last_bytes, proof->last_crc);
}

static uint64_t hash_of(const void *text, size_t bytes)
{
	return pfw_hash_text(pfw_hash_seed(), text, bytes);
}

static struct pfw_varints first_name(const void *files, size_t bytes)
{
	struct pfw_varints reader = pfw_varints(files, bytes);

	pfw_varints_next(&reader); /* the version */
	return pfw_varints_part(&reader);
}

/* ---- reading ---- */

static bool is_gone(const struct pfw_overlaps *overlaps, struct pfw_varints name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%.*s", overlaps->directory, (int)(name.end - name.at),
		 (const char *)name.at);
	return access(path, F_OK) < 0;
}

static int add_unit(struct pfw_overlaps *overlaps, const struct pfw_partial *partial,
		    const char *path, const struct pfw_partial_unit *unit)
{
	struct kept kept = { .path = path, .unit = *unit };
	struct pfw_varints name;
	char *files;
	int error = pfw_partial_facts(partial, unit, 0, &files);

	if (error)
		return error;
	name = first_name(files, unit->facts_bytes);
	kept.hash = hash_of(files, unit->facts_bytes);
	kept.first = hash_of(name.at, (size_t)(name.end - name.at));
	kept.gone = is_gone(overlaps, name);
	free(files);
	return PFW_PUSH(overlaps->kept, overlaps->count, overlaps->room, kept);
}

/* Add what a file has.  Nothing is an error but that there is no memory: the lines have it all. */
static int add_file(struct pfw_overlaps *overlaps, const char *path, uid_t owner)
{
	struct pfw_partial partial;
	struct pfw_partial_unit unit;
	const char *why;
	int error = path ? pfw_partial_open(&partial, path, &why) : -ENOENT;

	if (error)
		return error == -ENOMEM ? error : 0;
	if (pfw_is_trusted(&partial.st, owner)) {
		while (!error && pfw_partial_next(&partial, &unit) > 0)
			error = add_unit(overlaps, &partial, path, &unit);
	}
	pfw_partial_close(&partial);
	return error == -ENOMEM ? error : 0;
}

static int by_hash(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return PFW_ORDER(x->hash, y->hash);
}

int pfw_overlaps_open(struct pfw_overlaps **out, const char *directory)
{
	struct pfw_overlaps *overlaps = calloc(1, sizeof(*overlaps));
	char *stem = pfw_index_in_cache(directory, false);
	struct stat st = { .st_uid = geteuid() };
	int error = overlaps ? 0 : -ENOMEM;

	stat(directory, &st);
	if (!error) {
		overlaps->directory = strdup(directory);
		overlaps->cached = stem ? pfw_index_path(stem, PFW_INDEX_SUFFIX) : NULL;
		if (!overlaps->directory ||
		    asprintf(&overlaps->beside, "%s/" STEM PFW_INDEX_SUFFIX, directory) < 0)
			error = -ENOMEM;
	}
	free(stem);
	error = error ? error : add_file(overlaps, overlaps->beside, st.st_uid);
	error = error ? error : add_file(overlaps, overlaps->cached, geteuid());
	if (error && overlaps) {
		pfw_overlaps_close(overlaps);
		return error;
	}
	if (!error && overlaps->count)
		qsort(overlaps->kept, overlaps->count, sizeof(*overlaps->kept), by_hash);
	*out = overlaps;
	return error;
}

void pfw_overlaps_close(struct pfw_overlaps *overlaps)
{
	if (!overlaps)
		return;
	for (size_t i = 0; i < overlaps->added; i++) {
		pfw_blob_free(&overlaps->keeping[i].files);
		pfw_blob_free(&overlaps->keeping[i].data);
	}
	free(overlaps->keeping);
	free(overlaps->kept);
	free(overlaps->directory);
	free(overlaps->beside);
	free(overlaps->cached);
	free(overlaps);
}

size_t pfw_overlaps_count(const struct pfw_overlaps *overlaps)
{
	return overlaps->count;
}

/* Whether they are of these files, not only of the same hash. */
static int check_files(const struct kept *kept, const struct pfw_blob *files)
{
	struct pfw_partial partial;
	const char *why;
	char *text;
	int error = pfw_partial_open(&partial, kept->path, &why);

	if (error)
		return error;
	error = pfw_partial_facts(&partial, &kept->unit, 0, &text);
	pfw_partial_close(&partial);
	if (error)
		return error;
	if (kept->unit.facts_bytes != files->bytes || memcmp(text, files->data, files->bytes) != 0)
		error = -ENOENT;
	free(text);
	return error;
}

int pfw_overlaps_find(const struct pfw_overlaps *overlaps, const struct pfw_blob *files,
		      struct pfw_overlap *overlap)
{
	const struct kept wanted = { .hash = hash_of(files->data, files->bytes) };
	const struct kept *kept =
		overlaps->count
			? bsearch(&wanted, overlaps->kept, overlaps->count, sizeof(wanted), by_hash)
			: NULL;
	struct pfw_varints row;
	unsigned char *data;
	int error = kept ? check_files(kept, files) : -ENOENT;

	error = error ? error : pfw_partial_index(kept->path, &kept->unit, &data);
	if (error)
		return error;
	row = pfw_varints(data, kept->unit.index_bytes);
	error = pfw_overlap_read_row(overlap, &row, true);
	free(data);
	return error ? error : row.bad ? -EBADMSG : 0;
}

/* ---- writing ---- */

int pfw_overlaps_keep(struct pfw_overlaps *overlaps, const struct pfw_blob *files,
		      const struct pfw_overlap *overlap)
{
	struct pfw_varints name = first_name(files->data, files->bytes);
	struct keeping keeping = { .first = hash_of(name.at, (size_t)(name.end - name.at)) };

	if (PFW_ROOM(overlaps->keeping, overlaps->added, overlaps->adding_room) ||
	    pfw_blob_reserve(&keeping.files, files->bytes))
		return -ENOMEM;
	memcpy(keeping.files.data, files->data, files->bytes);
	keeping.files.bytes = files->bytes;
	pfw_overlap_put_row(overlap, &keeping.data);
	overlaps->keeping[overlaps->added++] = keeping;
	return keeping.data.failed ? -ENOMEM : 0;
}

static int by_first(const void *a, const void *b)
{
	const struct keeping *x = a, *y = b;

	return PFW_ORDER(x->first, y->first);
}

static int put_all(const struct pfw_overlaps *overlaps, struct pfw_partial_writer *writer)
{
	int error = 0;

	qsort(overlaps->keeping, overlaps->added, sizeof(*overlaps->keeping), by_first);
	for (size_t i = 0; i < overlaps->added && !error; i++) {
		const struct keeping *keeping = &overlaps->keeping[i];

		error = pfw_partial_add(writer, (const char *)keeping->files.data,
					keeping->files.bytes, keeping->data.data,
					keeping->data.bytes);
	}
	for (size_t i = 0; i < overlaps->count && !error; i++) {
		const struct kept *kept = &overlaps->kept[i];
		const struct keeping same = { .first = kept->first };

		if (!kept->gone &&
		    !bsearch(&same, overlaps->keeping, overlaps->added, sizeof(same), by_first))
			error = pfw_partial_copy(writer, kept->path, &kept->unit);
	}
	return error;
}

static int write_at(const struct pfw_overlaps *overlaps, const char *path, mode_t mode, char *where)
{
	struct pfw_partial_writer *writer;
	int error = pfw_partial_begin(&writer, path);

	if (error)
		return error;
	pfw_partial_mode(writer, mode);
	error = put_all(overlaps, writer);
	error = error ? error : pfw_partial_commit(writer);
	pfw_partial_end(writer);
	snprintf(where, PATH_MAX, "%s", path);
	return error;
}

static int write_cached(const struct pfw_overlaps *overlaps, mode_t mode, char *where)
{
	char *stem = pfw_index_in_cache(overlaps->directory, true);
	char *path = stem ? pfw_index_path(stem, PFW_INDEX_SUFFIX) : NULL;
	int error = path ? pfw_index_cache_link(stem, overlaps->directory) : -EACCES;

	error = error ? error : write_at(overlaps, path, mode, where);
	if (!error)
		pfw_index_cache_trim(stem);
	free(path);
	free(stem);
	return error;
}

int pfw_overlaps_write(struct pfw_overlaps *overlaps, const char *trace, mode_t mode, char *where)
{
	int error = -EACCES;

	if (pfw_index_may_be_beside(trace))
		error = write_at(overlaps, overlaps->beside, mode, where);
	return error == -EACCES || error == -EPERM || error == -EROFS || error == -EEXIST
		       ? write_cached(overlaps, mode, where)
		       : error;
}
