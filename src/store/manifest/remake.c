/* store/manifest/remake.c - the manifest that files should have; see internal.h and manifest.h. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/order.h"
#include "store/gzip/member.h"
#include "store/manifest/internal.h"
#include "store/pass/pass.h"
#include "store/read/blocks.h"
#include "store/read/input.h"

struct remaking {
	struct pfw_manifest_file *file;
	int fd;
};

/* Only members with metadata are read. */
static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct remaking *remaking = user;
	struct pfw_sorted_mark mark;
	struct pfw_link link;

	(void)file;
	return pfw_chain_look(&link, remaking->fd, block->at) ||
	       pfw_sorted_mark_read(link.header, link.header_bytes, &mark) || mark.metadata;
}

/* Collect the metadata lines of a block, each with its '\n'. */
static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	struct pfw_buffer *kept = block->result;
	struct pfw_pass_lines lines;
	int error = 0;

	(void)user;
	(void)worker;
	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines)) {
		if (lines.entry.ph == 'M')
			error = pfw_buffer_add(kept, lines.text, lines.bytes)
					?: pfw_buffer_add(kept, "\n", 1);
	}
	return error;
}

static void drop(void *result)
{
	pfw_buffer_free(result);
	free(result);
}

static int done(void *user, struct pfw_pass_block *block)
{
	const struct remaking *remaking = user;
	const struct pfw_buffer *kept = block->result;
	int error = 0;

	for (size_t at = 0, bytes; !error && at < kept->bytes; at += bytes) {
		bytes = (size_t)((char *)memchr(kept->data + at, '\n', kept->bytes - at) -
				 (kept->data + at)) +
			1;
		error = pfw_manifest_line(remaking->file, kept->data + at, bytes);
	}
	return error;
}

static void sum_up(struct pfw_pack_sum *sum, const struct pfw_blocks *blocks,
		   const struct pfw_marks *marks)
{
	*sum = (struct pfw_pack_sum){ .bytes = blocks->file_bytes,
				      .lines = marks->lines,
				      .metadata = marks->metadata,
				      .checksum = marks->checksum,
				      .members = blocks->count,
				      .least_ns = INT64_MAX,
				      .greatest_ns = INT64_MIN };
	for (size_t i = 0; i < blocks->count; i++) {
		const struct pfw_block *block = &blocks->block[i];

		if (block->least_ns > block->greatest_ns)
			continue;
		PFW_LOWER(sum->least_ns, block->least_ns);
		PFW_RAISE(sum->greatest_ns, block->greatest_ns);
	}
}

int pfw_manifest_remake(struct pfw_manifest *manifest, const char *name, int64_t rank,
			const char *path, const struct pfw_blocks *blocks,
			const struct pfw_marks *marks)
{
	struct remaking remaking = { .file = pfw_manifest_add(manifest, name, rank),
				     .fd = pfw_input_open_fd(path) };
	struct pfw_trace_file trace = { .path = (char *)path, .blocks = *blocks };
	const struct pfw_traces traces = { .file = &trace, .count = 1 };
	const struct pfw_pass pass = { .traces = &traces,
				       .user = &remaking,
				       .result_bytes = sizeof(struct pfw_buffer),
				       .want = want,
				       .work = work,
				       .done = done,
				       .drop = drop };
	int error = !remaking.file ? -ENOMEM : remaking.fd < 0 ? remaking.fd : 0;

	if (!error) {
		sum_up(&remaking.file->sum, blocks, marks);
		error = pfw_pass_run(&pass);
	}
	if (remaking.fd >= 0)
		close(remaking.fd);
	return error;
}

/* ---- an older manifest ---- */

struct keeping {
	struct pfw_manifest *manifest;
	const char *directory; /* "", or with its '/' */
	bool (*keep)(void *user, const char *name, uint64_t bytes);
	void *user;
};

/* Take over a file that the older manifest names, as the file is.  0 or -ENOMEM. */
static int keep_file(const struct keeping *keeping, const struct pfw_slice *object)
{
	char name[256], path[PATH_MAX];
	struct pfw_blocks blocks;
	struct pfw_marks marks;
	struct pfw_value rank;
	uint64_t bytes = 0;
	int64_t number;
	int error = 0;

	pfw_manifest_text_u64(object, "bytes", &bytes);
	if (!pfw_manifest_text_string(object, "file", name, sizeof(name)) ||
	    pfw_manifest_text_leads_out(name) || !keeping->keep(keeping->user, name, bytes) ||
	    !pfw_slice_find(object, "rank", &rank) || !pfw_value_i64(&rank, &number) ||
	    snprintf(path, sizeof(path), "%s%s", keeping->directory, name) >= PATH_MAX ||
	    pfw_blocks_find(&blocks, path))
		return 0;
	if (pfw_marks_read(&marks, path, &blocks) == 0 && marks.marked) {
		error = pfw_manifest_remake(keeping->manifest, name, number, path, &blocks, &marks);
		if (error && error != -ENOMEM)
			pfw_manifest_drop(keeping->manifest);
	}
	pfw_blocks_free(&blocks);
	return error == -ENOMEM ? error : 0;
}

int pfw_manifest_keep(struct pfw_manifest *manifest, const char *path,
		      bool (*keep)(void *user, const char *name, uint64_t bytes), void *user)
{
	const char *slash = strrchr(path, '/');
	char *directory = strndup(path, slash ? (size_t)(slash - path) + 1 : 0), why[256];
	const struct keeping keeping = {
		.manifest = manifest, .directory = directory, .keep = keep, .user = user
	};
	struct pfw_manifest_text text;
	struct pfw_value item;
	struct pfw_walk list;
	int error = directory ? pfw_manifest_text_read(&text, path, why, sizeof(why)) : -ENOMEM;
	bool found = !error;

	if (found && pfw_slice_find(&text.whole, "run", &item) && item.type == PFW_VALUE_STRING &&
	    pfw_slice_is(&item.text, manifest->run) &&
	    pfw_manifest_text_list(&text, "files", &list))
		while (!error && pfw_elements_next(&list, &item))
			error = item.type == PFW_VALUE_OBJECT ? keep_file(&keeping, &item.text) : 0;
	if (found)
		pfw_manifest_text_free(&text);
	free(directory);
	/* Without a readable one there is nothing to keep. */
	return found || error == -ENOMEM ? error : 0;
}

/* ---- ranks ---- */

/* The rank that a file's processes have; -1: none, or several. */
static int64_t rank_of_processes(const struct pfw_manifest *manifest,
				 const struct pfw_manifest_file *file)
{
	int64_t rank = -1;

	for (size_t i = 0; i < manifest->processes; i++) {
		const struct manifest_process *process = &manifest->process[i];

		if (process->file != file || process->rank < 0)
			continue;
		if (rank >= 0 && rank != process->rank)
			return -1;
		rank = process->rank;
	}
	return rank;
}

const struct pfw_manifest_file *pfw_manifest_wrong_rank(const struct pfw_manifest *manifest)
{
	for (size_t i = 0; i < manifest->files; i++) {
		const struct pfw_manifest_file *file = manifest->file[i];
		int64_t rank = rank_of_processes(manifest, file);
		const char *late = strstr(file->name, "-rank");

		/* All ranks in one file (--split-by none) are -1, a late rank is in the name. */
		if (file->rank != rank &&
		    (late ? file->rank != strtoll(late + 5, NULL, 10) : file->rank != -1))
			return file;
	}
	return NULL;
}
