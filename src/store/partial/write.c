/* store/partial/write.c - writes a partial under a temporary name, which is renamed; see
 * partial.h. */
#include <errno.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/le.h"
#include "store/partial/internal.h"
#include "store/partial/partial.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

#define LEVEL 6

struct pfw_partial_writer {
	char *path, *unfinished;
	int fd;
	bool published;
	mode_t mode;
	uint64_t units, at;
	struct libdeflate_compressor *deflate;
};

/* 0 if the name is free or that of a partial, which will be replaced; or -errno. */
static int check_name(const char *path)
{
	struct pfw_partial old;
	struct stat st;
	const char *why;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode) || pfw_partial_open(&old, path, &why))
		return -EEXIST;
	pfw_partial_close(&old);
	return 0;
}

int pfw_partial_begin(struct pfw_partial_writer **out, const char *path)
{
	struct pfw_partial_writer *writer = calloc(1, sizeof(*writer));
	int error = check_name(path);

	if (!writer)
		return -ENOMEM;
	writer->fd = -1;
	writer->mode = 0666;
	writer->at = PFW_PARTIAL_HEADER;
	writer->path = strdup(path);
	writer->deflate = libdeflate_alloc_compressor(LEVEL);
	/* The pid is in the name: two processes may write the same partial. */
	if (!writer->path || !writer->deflate ||
	    asprintf(&writer->unfinished, "%s.%ld.tmp", path, (long)getpid()) < 0) {
		writer->unfinished = NULL;
		error = error ?: -ENOMEM;
	}
	if (!error) {
		writer->fd = pfw_open_new(writer->unfinished, 0600);
		error = writer->fd < 0 ? writer->fd : 0;
	}
	if (error)
		pfw_partial_end(writer);
	else
		*out = writer;
	return error;
}

static int put_unit(struct pfw_partial_writer *writer, const struct pfw_partial_unit *unit,
		    const unsigned char *packed)
{
	unsigned char head[PFW_PARTIAL_UNIT];
	int error;

	pfw_le_put(head, unit->facts_packed, 4);
	pfw_le_put(head + 4, unit->facts_bytes, 4);
	pfw_le_put(head + 8, unit->index_packed, 4);
	pfw_le_put(head + 12, unit->index_bytes, 4);
	pfw_le_put(head + 16, unit->facts_crc, 4);
	pfw_le_put(head + 20, unit->index_crc, 4);
	error = pfw_full_write(writer->fd, head, sizeof(head), &writer->at);
	if (!error)
		error = pfw_full_write(writer->fd, packed,
				       (size_t)unit->facts_packed + unit->index_packed,
				       &writer->at);
	writer->units += !error;
	return error;
}

int pfw_partial_add(struct pfw_partial_writer *writer, const char *facts, size_t facts_bytes,
		    const void *index, size_t index_bytes)
{
	struct pfw_partial_unit unit = { .facts_bytes = (uint32_t)facts_bytes,
					 .index_bytes = (uint32_t)index_bytes };
	size_t room, used;
	unsigned char *packed;
	int error;

	if (facts_bytes > PFW_PARTIAL_FACTS_MAX || index_bytes > PFW_PARTIAL_INDEX_MAX)
		return -EFBIG;
	room = libdeflate_deflate_compress_bound(writer->deflate, facts_bytes) +
	       libdeflate_deflate_compress_bound(writer->deflate, index_bytes);
	packed = malloc(room);
	if (!packed)
		return -ENOMEM;
	used = libdeflate_deflate_compress(writer->deflate, facts, facts_bytes, packed, room);
	unit.facts_packed = (uint32_t)used;
	unit.facts_crc = libdeflate_crc32(0, packed, used);
	unit.index_packed = (uint32_t)libdeflate_deflate_compress(
		writer->deflate, index, index_bytes, packed + used, room - used);
	unit.index_crc = libdeflate_crc32(0, packed + used, unit.index_packed);
	error = put_unit(writer, &unit, packed);
	free(packed);
	return error;
}

int pfw_partial_copy(struct pfw_partial_writer *writer, const char *path,
		     const struct pfw_partial_unit *unit)
{
	size_t bytes = (size_t)unit->facts_packed + unit->index_packed;
	unsigned char *packed = malloc(bytes + 1);
	int error, fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);

	error = fd < 0 ? fd : packed ? pfw_full_read_all(fd, packed, bytes, unit->at) : -ENOMEM;
	if (!error && (libdeflate_crc32(0, packed, unit->facts_packed) != unit->facts_crc ||
		       libdeflate_crc32(0, packed + unit->facts_packed, unit->index_packed) !=
			       unit->index_crc))
		error = -EBADMSG;
	error = error ?: put_unit(writer, unit, packed);
	if (fd >= 0)
		close(fd);
	free(packed);
	return error;
}

void pfw_partial_mode(struct pfw_partial_writer *writer, mode_t mode)
{
	writer->mode &= mode;
}

int pfw_partial_commit(struct pfw_partial_writer *writer)
{
	unsigned char header[PFW_PARTIAL_HEADER] = PFW_PARTIAL_MAGIC;
	uint64_t at = 0;
	int error;

	pfw_le_put(header + PFW_PARTIAL_MAGIC_BYTES, writer->units, 8);
	pfw_le_put(header + PFW_PARTIAL_MAGIC_BYTES + 8, writer->at, 8);
	error = pfw_full_write(writer->fd, header, sizeof(header), &at);
	if (error)
		return error;
	if (fchmod(writer->fd, writer->mode & 0666) < 0 || fsync(writer->fd) < 0 ||
	    rename(writer->unfinished, writer->path) < 0)
		return -errno;
	writer->published = true;
	return 0;
}

void pfw_partial_end(struct pfw_partial_writer *writer)
{
	if (writer->fd >= 0 && !writer->published)
		unlink(writer->unfinished);
	if (writer->fd >= 0)
		close(writer->fd);
	if (writer->deflate)
		libdeflate_free_compressor(writer->deflate);
	free(writer->path);
	free(writer->unfinished);
	free(writer);
}
