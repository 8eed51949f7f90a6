/* store/partial/partial.c - reads a partial, which may be anybody's, and writes one under a temporary
 * name, which is renamed; see partial.h. */
#include <errno.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/le.h"
#include "common/format/gzip_header.h"
#include "store/partial/partial.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

/* Documented in docs/index_format.rst; all numbers with the lowest byte first. */
#define MAGIC "PFWPART1"
#define MAGIC_BYTES 8u
#define HEADER_BYTES 24u /* magic, units, bytes of the file */
#define UNIT_BYTES 24u	 /* the members of struct pfw_partial_unit after `at` */

bool pfw_partial_is_name(const char *path)
{
	size_t bytes = strlen(path), suffix = sizeof(PFW_PARTIAL_SUFFIX) - 1;

	return bytes > suffix && strcmp(path + bytes - suffix, PFW_PARTIAL_SUFFIX) == 0;
}

int pfw_partial_open(struct pfw_partial *partial, const char *path, const char **why)
{
	unsigned char header[HEADER_BYTES];
	int error;

	*partial = (struct pfw_partial){ .at = HEADER_BYTES };
	partial->fd = pfw_open_file(path, PFW_OPEN_LINK, &partial->st);
	if (partial->fd < 0) {
		*why = strerror(-partial->fd);
		return partial->fd;
	}
	error = pfw_full_read_all(partial->fd, header, sizeof(header), 0);
	partial->units = error ? 0 : pfw_le_get(header + MAGIC_BYTES, 8);
	partial->bytes = error ? 0 : pfw_le_get(header + MAGIC_BYTES + 8, 8);
	*why = "not a partial of this pfw's format";
	if (error || memcmp(header, MAGIC, MAGIC_BYTES) != 0) {
		error = -EBADMSG;
	} else if (partial->bytes != (uint64_t)partial->st.st_size) {
		*why = "a cut partial: it has not the length that it should have";
		error = -EBADMSG;
	}
	if (error)
		pfw_partial_close(partial);
	return error;
}

void pfw_partial_close(struct pfw_partial *partial)
{
	close(partial->fd);
}

/* Whether `packed` bytes of deflate can give `bytes` bytes, of which `most` are allowed. */
static bool may_be(uint32_t packed, uint32_t bytes, uint32_t most)
{
	return bytes <= most && bytes / PFW_DEFLATE_MOST <= packed;
}

int pfw_partial_next(struct pfw_partial *partial, struct pfw_partial_unit *unit)
{
	unsigned char head[UNIT_BYTES];
	uint64_t left = partial->bytes - partial->at;

	if (partial->unit == partial->units)
		return left ? -EBADMSG : 0;
	if (left < sizeof(head) || pfw_full_read_all(partial->fd, head, sizeof(head), partial->at))
		return -EBADMSG;
	*unit = (struct pfw_partial_unit){ .at = partial->at + sizeof(head),
					   .facts_packed = (uint32_t)pfw_le_get(head, 4),
					   .facts_bytes = (uint32_t)pfw_le_get(head + 4, 4),
					   .index_packed = (uint32_t)pfw_le_get(head + 8, 4),
					   .index_bytes = (uint32_t)pfw_le_get(head + 12, 4),
					   .facts_crc = (uint32_t)pfw_le_get(head + 16, 4),
					   .index_crc = (uint32_t)pfw_le_get(head + 20, 4) };
	left -= sizeof(head);
	if ((uint64_t)unit->facts_packed + unit->index_packed > left ||
	    !may_be(unit->facts_packed, unit->facts_bytes, PFW_PARTIAL_FACTS_MAX) ||
	    !may_be(unit->index_packed, unit->index_bytes, PFW_PARTIAL_INDEX_MAX))
		return -EBADMSG;
	partial->at = unit->at + unit->facts_packed + unit->index_packed;
	partial->unit++;
	return 1;
}

/* Deflated bytes of a file. */
struct packed {
	uint64_t at;
	uint32_t packed, bytes, crc;
};

/* Read and inflate them. */
static int inflate(int fd, const struct packed *from, size_t padding, unsigned char **out)
{
	struct libdeflate_decompressor *inflate = libdeflate_alloc_decompressor();
	unsigned char *in = malloc(from->packed + 1u);
	unsigned char *made = calloc(1, from->bytes + padding + 1);
	int error = inflate && in && made ? 0 : -ENOMEM;

	error = error ?: pfw_full_read_all(fd, in, from->packed, from->at);
	if (!error && libdeflate_crc32(0, in, from->packed) != from->crc)
		error = -EBADMSG;
	/* The stream must give exactly from->bytes bytes. */
	if (!error &&
	    libdeflate_deflate_decompress(inflate, in, from->packed, made, from->bytes, NULL))
		error = -EBADMSG;
	if (inflate)
		libdeflate_free_decompressor(inflate);
	free(in);
	if (error)
		free(made);
	else
		*out = made;
	return error;
}

int pfw_partial_facts(const struct pfw_partial *partial, const struct pfw_partial_unit *unit,
		      size_t padding, char **out)
{
	unsigned char *made;
	const struct packed from = { .at = unit->at,
				     .packed = unit->facts_packed,
				     .bytes = unit->facts_bytes,
				     .crc = unit->facts_crc };
	int error = inflate(partial->fd, &from, padding, &made);

	if (!error)
		*out = (char *)made;
	return error;
}

int pfw_partial_index(const char *path, const struct pfw_partial_unit *unit, unsigned char **out)
{
	const struct packed from = { .at = unit->at + unit->facts_packed,
				     .packed = unit->index_packed,
				     .bytes = unit->index_bytes,
				     .crc = unit->index_crc };
	int error, fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);

	if (fd < 0)
		return fd;
	error = inflate(fd, &from, 0, out);
	close(fd);
	return error;
}

/* ---- writing ---- */

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
	writer->at = HEADER_BYTES;
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
	unsigned char head[UNIT_BYTES];
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
	unsigned char header[HEADER_BYTES] = MAGIC;
	uint64_t at = 0;
	int error;

	pfw_le_put(header + MAGIC_BYTES, writer->units, 8);
	pfw_le_put(header + MAGIC_BYTES + 8, writer->at, 8);
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
